"""Launchers on one host, and several as if on several: places, failures, restarts, ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.processes import HERE
from tritorch.distributed import schedulers
from tritorch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)
from tritorch.distributed.launcher.api import LaunchConfig, elastic_launch
from tritorch.distributed.run import config_from_args, parse_args

PROGRAM = str(HERE / "launched_program.py")
LIMIT = 120


def begin(*words, **variables):
    """A launcher, which runs."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parent.parent), **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "tritorch", "launch", *map(str, words)],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def launch(*words, **variables):
    """(exit status, output, errors) of a launch."""
    process = begin(*words, **variables)
    try:
        out, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    return process.returncode, out, err


def said(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_workers_know_their_places():
    status, out, err = launch("--nproc-per-node", 2, PROGRAM, "well", "-m", "--flag")
    assert status == 0, err
    places = sorted(said(out), key=lambda each: each["RANK"])
    assert [each["LOCAL_RANK"] for each in places] == [0, 1]
    for each in places:
        assert each["WORLD_SIZE"] == each["LOCAL_WORLD_SIZE"] == 2
        assert each["arguments"] == ["-m", "--flag"]


@pytest.mark.parametrize("way", ["c10d", "static"])
def test_two_hosts(way):
    port = free_port()
    common = ["--nnodes", 2, "--nproc-per-node", 1, "--rdzv-id", "job"]
    if way == "c10d":
        each = [[*common, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"]] * 2
    else:
        each = [[*common, "--node-rank", i, "--master-port", port] for i in (1, 0)]
    launchers = [begin(*words, PROGRAM, "well") for words in each]
    printed = [launcher.communicate(timeout=LIMIT) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], printed
    places = [said(out)[0] for out, _ in printed]
    assert sorted(place["RANK"] for place in places) == [0, 1]
    if way == "static":
        assert [place["RANK"] for place in places] == [1, 0]
        assert [place["GROUP_RANK"] for place in places] == [1, 0]


def test_a_failure_is_told_at_the_end_of_both_hosts():
    port = free_port()
    words = ["--nnodes", 2, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"]
    launchers = [begin(*words, PROGRAM, "raise") for _ in range(2)]
    for launcher in launchers:
        _, err = launcher.communicate(timeout=LIMIT)
        assert launcher.returncode == 1
        end = err[err.index("Root Cause") :]
        assert "rank      : 1" in end
        assert "ValueError: broken at the last rank" in end and "launched_program.py" in end


def test_workers_that_have_raised_and_do_not_end_are_ended():
    start = time.monotonic()
    status, _, err = launch("--nproc-per-node", 2, "--shutdown-timeout", 2, PROGRAM, "hang")
    assert status == 1 and "ValueError: broken at all ranks" in err[err.index("Root Cause") :]
    assert time.monotonic() - start < 60


def test_the_first_error_comes_last():
    """Those that only heard of another's failure are no root cause, whatever their time."""
    status, _, err = launch("--nproc-per-node", 3, PROGRAM, "follow")
    assert status == 1
    end = err[err.index("Root Cause") :]
    assert "rank      : 1 (local_rank: 1)" in end and "KeyError: 'the first error'" in end


def test_the_first_failure_by_time_and_by_kind(tmp_path):
    def failure(rank, text, when):
        path = tmp_path / f"{rank}.json"
        extra = {"py_callstack": text, "timestamp": str(when)}
        path.write_text(json.dumps({"message": {"message": text, "extraInfo": extra}}))
        return ProcessFailure(rank, 1, 1, str(path))

    failures = {
        0: failure(0, "DistBackendError: a rank is gone", 1.0), 1: failure(1, "OSError", 3.0),
        2: failure(2, "KeyError", 2.0),
    }  # fmt: skip
    assert ChildFailedError("x", failures).get_first_failure()[0] == 2
    only = ChildFailedError("x", {0: failures[0]})
    assert only.get_first_failure()[0] == 0 and "<NO_OTHER_FAILURES>" in str(only)


def test_workers_start_again_all_together():
    words = ["--nproc-per-node", 2, "--max-restarts", 1, PROGRAM, "once"]
    status, out, err = launch(*words)
    assert status == 0, err
    assert sorted((each["RANK"], each["again"]) for each in said(out)) == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    assert "rank 0 failed (Signal 9 (SIGKILL)" in err
    status, _, err = launch("--nproc-per-node", 2, PROGRAM, "once")
    assert status == 1 and "Signal 9 (SIGKILL) received by PID" in err[err.index("Root Cause") :]


def test_sigterm_on_a_rank_ends_the_others():
    start = time.monotonic()
    status, _, err = launch("--nproc-per-node", 3, PROGRAM, "terminated")
    assert status == 1 and "(SIGTERM)" in err[err.index("Root Cause") :]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("what", ["sleep", "stubborn"])
def test_sigterm_on_the_launcher_ends_all(what):
    launcher = begin("--nproc-per-node", 2, "--shutdown-timeout", 2, PROGRAM, what)
    lines = [launcher.stdout.readline() for _ in range(4 if what == "stubborn" else 2)]
    assert all(lines)
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    assert len(children) == 2
    launcher.send_signal(signal.SIGTERM)
    start = time.monotonic()
    _, err = launcher.communicate(timeout=LIMIT)
    assert launcher.returncode == 128 + signal.SIGTERM and "SIGTERM" in err
    assert time.monotonic() - start < 30
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_workers_of_a_killed_launcher_end():
    launcher = begin("--nproc-per-node", 2, PROGRAM, "sleep")
    assert all(launcher.stdout.readline() for _ in range(2))
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    launcher.kill()
    launcher.communicate(timeout=LIMIT)  # ends when nobody holds its output
    assert not any(Path(f"/proc/{child}/exe").exists() for child in children)


def test_logs_of_each_rank(tmp_path):
    words = ["--log-dir", tmp_path, "-r", "1:3", "-t", "0:3", "--nproc-per-node", 2]
    status, out, err = launch(*words, PROGRAM, "raise")
    assert status == 1
    (run,) = tmp_path.iterdir()
    first, second = (run / "attempt_0" / rank for rank in "01")
    assert '"RANK": 0' in (first / "stdout.log").read_text()
    assert "ValueError" in (second / "stderr.log").read_text()
    assert "[default0]:{" in out and '"RANK": 1' not in out
    assert "ValueError" in json.loads((second / "error.json").read_text())["message"]["message"]
    assert "Root Cause" in err


def test_lines_and_ranks_that_are_shown(tmp_path):
    words = ["--log-dir", tmp_path, "--local-ranks-filter", "1", "--nproc-per-node", 2,
             "--duplicate-stdout-filters", '"RANK": 0,nothing']  # fmt: skip
    status, out, err = launch(*words, PROGRAM, "well")
    assert status == 0, err
    assert '"RANK": 0' not in out and '"RANK": 1' in out
    (filtered,) = tmp_path.glob("*/attempt_0/0/filtered_stdout.log")
    assert '"RANK": 0' in filtered.read_text()


def function(base):
    return base + int(os.environ["RANK"])


def failing():
    raise RuntimeError(f"rank {os.environ['RANK']}")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_functions(method):
    config = LaunchConfig(1, 1, 2, start_method=method, max_restarts=0)
    before = dict(os.environ)
    assert elastic_launch(config, function)(10) == {0: 10, 1: 11}
    assert dict(os.environ) == before
    with pytest.raises(ChildFailedError, match="RuntimeError: rank [01]"):
        elastic_launch(config, failing)()


def test_programs_that_import_torch(tmp_path):
    """torchrun's workers are programs written for PyTorch; so are launch's of torch.distributed."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\n"
        "def main():\n"
        "    dist.init_process_group()\n"
        "    x = torch.ones(1); dist.all_reduce(x)\n"
        "    os.write(1, f'{int(x)} {sys.argv[1:]}'.encode())\n"
        "    dist.destroy_process_group()\n"
        "main()\n"
    )
    for module, word in (("run", "[]"), ("launch", "['--local-rank=1']")):
        words = ["-m", f"torch.distributed.{module}", "--nproc-per-node", "2", str(program)]
        run = subprocess.run(
            [sys.executable, "-m", "tritorch", "run", *words], text=True, capture_output=True,
            timeout=LIMIT,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        assert f"2 {word}" in run.stdout


AMONG_TWO = (
    "import torch.nn.functional as F, torch, torch.distributed as dist, os, sys\n"
    "dist.init_process_group('gloo')\n"
    "x = torch.ones(1); dist.all_reduce(x)\n"
    "os.write(1, f'{int(x)} {x.dtype} {torch is sys.modules[\"tritorch\"]}\\n'.encode())\n"
    "dist.destroy_process_group()\n"
)


def test_import_torch_in_launched_programs(tmp_path):
    """It gives tritorch where no torch is installed, and beside one with --as-torch."""
    program = tmp_path / "program.py"
    program.write_text(AMONG_TWO)
    status, out, err = launch("--nproc-per-node", 2, program)
    assert status == 0, err
    assert out.splitlines() == ["2 torch.float32 True"] * 2
    other = tmp_path / "site" / "torch"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("print('another torch')\n")
    path = os.pathsep.join([str(other.parent), str(HERE.parent.parent)])
    status, out, err = launch("--as-torch", "--nproc-per-node", 2, program, PYTHONPATH=path)
    assert status == 0, err
    assert out.splitlines() == ["2 torch.float32 True"] * 2
    status, out, err = launch(program, PYTHONPATH=path)
    assert status != 0 and "another torch" in out
    plain = tmp_path / "plain.py"
    plain.write_text("import os, tritorch; os.write(1, str(tritorch.float32).encode())\n")
    assert launch(plain)[:2] == (0, "tritorch.float32")


def test_as_torch_is_for_programs_of_python():
    status, _, err = launch("--as-torch", "--no-python", "true")
    assert status != 0 and "--no-python and --as-torch exclude each other" in err


def test_record_writes_the_error(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0)()
    told = ProcessFailure(0, 1, 1, str(path))
    assert "ZeroDivisionError" in told.told and "1 / 0" in told.told
    assert ProcessFailure.from_json(json.loads(json.dumps(told.to_json()))).told == told.told


def test_variables_stand_for_options(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_NO_PYTHON", "1")
    options = parse_args(["--max-restarts", "2", "program", "--x"])
    config, command, words = config_from_args(options)
    assert (config.nproc_per_node, config.max_restarts) == (3, 2)
    assert (command, words) == ("program", ["--x"])


SLURM = {
    "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "77", "SLURM_PROCID": "5", "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "2", "SLURM_NNODES": "4",
    "SLURM_STEP_NODELIST": "gpu[07-09,12],big1",
}  # fmt: skip


def test_what_schedulers_say():
    found = schedulers.as_rank(SLURM)
    assert (found.rank, found.size, found.local_rank, found.host) == (5, 8, 1, "gpu07")
    assert found.port == schedulers.as_launcher(SLURM).port and 20000 <= found.port < 30000
    host = schedulers.as_launcher(SLURM)
    assert (host.rank, host.size) == (2, 4)
    batch = {key: value for key, value in SLURM.items() if key != "SLURM_STEP_ID"}
    assert schedulers.as_rank(batch) is None  # the script itself is no rank
    for names, first in (("a", "a"), ("a,b", "a"), ("n[1,3]", "n1"), ("r[2-4]-x,q", "r2-x")):
        assert schedulers.first_host(names) == first
    inside = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
              "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}  # fmt: skip
    assert schedulers.as_rank(inside).host == "127.0.0.1"
    across = inside | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MASTER_ADDR": "head"}
    assert schedulers.as_rank(across).host == "head"
    pod = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "job-0.svc", "PET_NNODES": "2"}
    found = schedulers.as_launcher(pod)
    assert (found.rank, found.size, found.host, found.port) == (1, 2, "job-0.svc", 29500)
    assert schedulers.as_rank({}) is None and schedulers.as_launcher({}) is None


def test_ranks_that_a_scheduler_starts():
    """`srun python train.py` and `mpirun python train.py` need no launcher."""
    code = (
        "import tritorch as t, tritorch.distributed as d\n"
        "d.init_process_group(); x = t.ones(1); d.all_reduce(x); d.barrier()\n"
        "print(d.get_rank(), d.get_node_local_rank(), int(x)); d.destroy_process_group()\n"
    )
    for kind in ("slurm", "openmpi"):
        running = []
        for rank in range(2):
            if kind == "slurm":
                here = {**SLURM, "SLURM_JOB_ID": str(os.getpid()), "SLURM_PROCID": str(rank),
                        "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank),
                        "SLURM_STEP_NODELIST": "127.0.0.1"}  # fmt: skip
            else:
                here = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2",
                        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                        "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}  # fmt: skip
            running.append(subprocess.Popen(
                [sys.executable, "-c", code], env=os.environ | here, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ))  # fmt: skip
        for rank, process in enumerate(running):
            assert process.communicate(timeout=LIMIT)[0] == f"{rank} {rank} 2\n", kind


def test_hosts_that_come_later():
    """MIN:MAX: the job begins with one host, and begins anew with two when another comes."""
    port = free_port()
    words = ["--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
             "--rdzv-conf", "last_call_timeout=1"]  # fmt: skip
    first = begin(*words, PROGRAM, "sleep")
    assert json.loads(first.stdout.readline())["WORLD_SIZE"] == 1
    second = begin(*words, PROGRAM, "sleep")
    try:
        places = [json.loads(each.stdout.readline()) for each in (first, second)]
        assert [place["WORLD_SIZE"] for place in places] == [2, 2]
        assert {place["RANK"] for place in places} == {0, 1}
    finally:
        second.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGTERM)
        for each in (first, second):
            _, err = each.communicate(timeout=LIMIT)
            assert each.returncode != 0 and not re.search("Traceback", err), err


def test_a_host_whose_launcher_is_killed():
    port = free_port()
    words = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
             "--rdzv-conf", "keep_alive_interval=1"]  # fmt: skip
    first = begin(*words, PROGRAM, "sleep")
    time.sleep(1.5)  # it serves the store
    second = begin(*words, PROGRAM, "sleep")
    assert first.stdout.readline() and second.stdout.readline()
    second.kill()
    start = time.monotonic()
    _, err = first.communicate(timeout=LIMIT)
    second.communicate()
    assert first.returncode == 1 and time.monotonic() - start < 30
    assert "has said nothing for 3 s" in err or "Root Cause" in err
