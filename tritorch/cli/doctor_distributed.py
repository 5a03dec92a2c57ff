"""`python -m tritorch doctor --distributed`: what stands between processes and each other.

Interfaces, names and ports are asked of the system.  What moves data is tried: two processes of
this host meet by a file, and time a sum over shared memory and over TCP.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tritorch.cli.doctor import FAIL, NOTE, OK, WARN, Finding, _run

_SIOCGIFADDR = 0x8915
_MASTER_PORT = 29500  # PyTorch's
_FILES = 4096  # that a group of a thousand opens in each process, and some


# -- the network ---------------------------------------------------------------------------------


def interfaces() -> dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, request)
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def check_interfaces(found: dict[str, str]) -> Iterator[Finding]:
    """Interfaces with their addresses and speeds, and those that variables name."""
    shown = []
    for name, address in found.items():
        speed = _read(f"/sys/class/net/{name}/speed")
        known = f", {int(speed) / 1000:g} Gbit/s" if speed.isdigit() and int(speed) else ""
        shown.append(f"{name} {address}{known}")
    others = [name for name, address in found.items() if not address.startswith("127.")]
    if others:
        yield Finding("interfaces", OK, "; ".join(shown))
    else:
        fix = "jobs on this host work; for several hosts one more interface has to be up"
        yield Finding("interfaces", WARN, "; ".join(shown) or "none", fix)
    known_names = {name for _, name in socket.if_nameindex()}
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        named = os.environ.get(variable)
        if named is None:
            continue
        missing = [
            each for each in named.lstrip("^=").split(",")
            if not any(name.startswith(each) for name in known_names)
        ]  # fmt: skip
        if missing:
            fix = f"this host has {', '.join(sorted(known_names))}"
            yield Finding(variable, WARN, f"{named!r}: no interface {', '.join(missing)}", fix)
        else:
            yield Finding(variable, OK, named)


def check_name() -> Finding:
    """Whether the host's own name leads to an address that others reach."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        fix = "add it to /etc/hosts, or set MASTER_ADDR to an address"
        return Finding("host name", WARN, f"{name} leads nowhere ({error})", fix)
    if address.startswith("127."):
        fix = "over several hosts, set MASTER_ADDR to an address of an interface"
        return Finding("host name", NOTE, f"{name} is {address}, which only this host reaches", fix)
    return Finding("host name", OK, f"{name} is {address}")


def check_port() -> Iterator[Finding]:
    """Whether the store's port is free, or, where a job names one, whether it answers."""
    host, port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT") or _MASTER_PORT)
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
            free = True
        except OSError:
            free = False
    if free:
        yield Finding("port", OK, f"{port} is free")
    else:
        fix = "another job's store may be there: set MASTER_PORT, or --standalone picks one"
        yield Finding("port", WARN, f"{port} is taken", fix)
    if host:
        try:
            socket.create_connection((host, port), timeout=3).close()
            yield Finding("MASTER_ADDR", OK, f"{host}:{port} answers")
        except OSError as error:
            fix = "it answers while rank 0 runs; if it does, look at names, routes and firewalls"
            yield Finding("MASTER_ADDR", NOTE, f"{host}:{port}: {error}", fix)


# -- the host ------------------------------------------------------------------------------------


def check_limits() -> Finding:
    """Whether a process may open as many files as a large group has connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        fix = f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}"
        return Finding("open files", WARN, f"{soft}: groups of hundreds need more", fix)
    return Finding("open files", OK, str(soft))


def check_topology() -> Iterator[Finding]:
    """Cores, memory nodes, GPUs and adapters of InfiniBand, and what hangs where."""
    nodes = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    cores = len(os.sched_getaffinity(0))
    parts = [f"{node.name} has cores {_read(f'{node}/cpulist')}" for node in nodes]
    yield Finding("cores", OK, f"{cores} usable; " + ("; ".join(parts) or "one memory node"))
    cards = []
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        if _read(f"{device}/vendor") == "0x10de" and _read(f"{device}/class")[:6] == "0x0302":
            cards.append(f"{device.name} at node {_read(f'{device}/numa_node') or '?'}")
    adapters = []
    for device in sorted(Path("/sys/class/infiniband").glob("*")):
        rate = _read(f"{device}/ports/1/rate") or "?"
        adapters.append(f"{device.name} ({rate}) at node {_read(f'{device}/device/numa_node')}")
    yield Finding("GPUs on the bus", OK if cards else NOTE, "; ".join(cards) or "none")
    yield Finding("InfiniBand", OK if adapters else NOTE, "; ".join(adapters) or "none")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=30, check=True
        )
        rows = [line.rstrip() for line in told.stdout.splitlines() if line.startswith("GPU")]
        yield Finding("links", OK, "; ".join(" ".join(row.split()) for row in rows))


_NCCL = """
from tritorch.distributed.backends import nccl
wrong = nccl.problem()
print(f"!{wrong}" if wrong else f"{'.'.join(map(str, nccl.version()))} {nccl._library()}".strip())
"""


def check_nccl() -> Finding:
    """NCCL's version, or why there is none."""
    simulated = os.environ.get("TRITORCH_SIMULATE_CUDA", "") not in ("", "0")
    answer, problem = _run(_NCCL)
    if problem or answer.startswith("!"):
        fix = "for GPUs: pip install nvidia-nccl-cu12 (or -cu13), or set TRITORCH_LIBNCCL"
        return Finding("NCCL", NOTE, problem or answer[1:], fix)
    return Finding("NCCL", OK, "the simulated device's" if simulated else answer)


# -- two processes -------------------------------------------------------------------------------

_MEMBER = """
import json, sys, time, tritorch, tritorch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", "file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2,
                        timeout=timedelta(seconds=30))
def timed(count, repeats):
    x = tritorch.ones(count)
    dist.all_reduce(x)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(x)
    return (time.perf_counter() - start) / repeats
print(json.dumps([timed(1, 200), timed(1 << 22, 5)]))
dist.destroy_process_group()
"""


def try_pair(transport: str) -> tuple[list[float], str]:
    """Seconds of a sum of 4 bytes and of 16 MiB between two processes, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TRITORCH_GLOO_TRANSPORT": transport}
        members = [
            subprocess.Popen(
                [sys.executable, "-c", _MEMBER, f"{folder}/store", str(rank)], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            )
            for rank in range(2)
        ]  # fmt: skip
        try:
            said = [each.communicate(timeout=90) for each in members]
        except subprocess.TimeoutExpired:
            return [], "no answer within 90 s"
        finally:
            for each in members:
                each.kill()
    for (_, wrong), member in zip(said, members, strict=True):
        if member.returncode:
            return [], (wrong.strip().splitlines() or [f"exit status {member.returncode}"])[-1]
    return json.loads(said[0][0].strip().splitlines()[-1]), ""


def check_pairs() -> Iterator[Finding]:
    """What two processes of this host reach, over shared memory and over TCP."""
    for name, transport in (("shared memory", ""), ("TCP", "tcp")):
        times, problem = try_pair(transport)
        if problem:
            yield Finding(f"gloo, {name}", FAIL, problem)
            continue
        rate = (4 << 22) / times[1] / 1e9
        detail = f"a sum of 4 bytes takes {times[0] * 1e6:.0f} us, of 16 MiB {rate:.1f} GB/s"
        yield Finding(f"gloo, {name}", OK, detail)


def examine() -> list[Finding]:
    """All findings."""
    return [
        *check_interfaces(interfaces()), check_name(), *check_port(), check_limits(),
        *check_topology(), check_nccl(), *check_pairs(),
    ]  # fmt: skip
