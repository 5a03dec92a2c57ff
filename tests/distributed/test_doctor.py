"""`doctor --distributed`: what it says of networks, names, ports and limits, and what it times."""

import json
import resource
import socket
import subprocess
import sys

from tests.patience import PATIENCE
from tritorch.cli import doctor_distributed as doctor
from tritorch.cli.doctor import NOTE, OK, WARN


def statuses(findings):
    return {each.name: each.status for each in findings}


def test_interfaces_that_variables_name(monkeypatch):
    found = doctor.interfaces()
    assert found["lo"].startswith("127.")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^nosuch0")
    *_, gloo, nccl = doctor.check_interfaces(found)
    assert gloo.status == OK
    assert nccl.status == WARN and "no interface nosuch0" in nccl.detail and "lo" in nccl.fix


def test_a_host_without_a_network_is_told():
    (alone,) = doctor.check_interfaces({"lo": "127.0.0.1"})
    assert alone.status == WARN and "lo 127.0.0.1" in alone.detail


def test_names_that_lead_nowhere_or_to_this_host_alone(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    for answer, status in ("10.0.0.7", OK), ("127.0.1.1", NOTE):
        monkeypatch.setattr(socket, "gethostbyname", lambda name, answer=answer: answer)
        assert doctor.check_name().status == status

    def nowhere(name):
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "gethostbyname", nowhere)
    assert doctor.check_name().status == WARN and "MASTER_ADDR" in doctor.check_name().fix


def test_the_store_s_port_is_free_or_taken(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        assert statuses(doctor.check_port()) == {"port": WARN}
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        assert statuses(doctor.check_port()) == {"port": WARN, "MASTER_ADDR": OK}
    assert statuses(doctor.check_port()) == {"port": OK, "MASTER_ADDR": NOTE}


def test_few_open_files_are_told(monkeypatch):
    for soft, status in (256, WARN), (1 << 16, OK):
        monkeypatch.setattr(resource, "getrlimit", lambda which, soft=soft: (soft, 1 << 20))
        assert doctor.check_limits().status == status


def test_two_processes_meet_and_are_timed():
    command = [sys.executable, "-m", "tritorch", "doctor", "--distributed", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    section = {each["name"]: each for each in json.loads(done.stdout)["Distributed"]}
    for name in ("gloo, shared memory", "gloo, TCP"):
        assert section[name]["status"] == OK, section[name]
        assert "us" in section[name]["detail"] and "GB/s" in section[name]["detail"]
