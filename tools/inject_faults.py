#!/usr/bin/env python3
"""Inject faults into collectives and DDP, and hold that nothing hangs and that errors say where.

    python tools/inject_faults.py --faults 1000 --seed 0 --json faults.json
    python tools/inject_faults.py --only 17 --seed 0            # one of them again, with its texts

Each fault has a group of its own, of 2 to 4 processes, which are forked from a process that has
imported tritorch; its store is served from here, as by a launcher.  After some good collectives one
rank is killed, stopped, slow, loses its connections, or calls something else than the others.  For
each rank that is alive it is held that

- it ended with a DistBackendError not later than its timeout and 5 seconds after its call;
- the error names the rank that is at fault, and the line of this rank's own call.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

GRACE = 5.0  # seconds after the timeout
START = 120.0  # seconds until a group of processes is there, on a loaded machine
COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
    "all_to_all", "barrier",
)  # fmt: skip
ROOTED = ("broadcast", "reduce", "gather", "scatter")
GONE = ("killed", "stopped")
KINDS = (
    *GONE, "killed_halfway", "stopped_halfway", "slow", "closed", "operation", "shape", "dtype",
    "reduction", "root", "count",
)  # fmt: skip


@dataclasses.dataclass
class Fault:
    """What goes wrong, where."""

    number: int
    kind: str
    scene: str  # "collective", "ddp" or "message"
    size: int
    rank: int  # who is at fault
    collective: str
    good: int  # collectives, or steps, before
    count: int  # elements
    later: bool  # with async_op
    transport: str
    backend: str
    timeout: float

    @classmethod
    def drawn(cls, seed: int, number: int, timeout: float, backends: list[str]) -> Fault:
        """The fault of that number."""
        draw = random.Random(f"{seed}/{number}")
        size = draw.randint(2, 4)
        scene = draw.choice(("collective", "collective", "collective", "ddp", "ddp", "message"))
        kinds = {
            "collective": KINDS,
            "ddp": (*GONE, "slow", "closed", "count", "operation"),
            "message": (*GONE, "slow", "closed"),
        }[scene]
        kind = draw.choice(kinds)
        able = {
            "shape": COLLECTIVES[:-1], "dtype": COLLECTIVES[:-1],
            "reduction": ("all_reduce", "reduce", "reduce_scatter"),
            "root": ROOTED,
        }.get(kind, COLLECTIVES)  # fmt: skip
        transport = draw.choice(("memory", "tcp"))
        if kind == "closed" and scene != "message":
            transport = "tcp"  # collectives in memory have no sockets
        fault = cls(
            number, kind, scene, size, draw.randrange(size), draw.choice(able),
            draw.randint(0, 3), draw.choice((1, 5, 1000, 300_000)), draw.random() < 0.4,
            transport, draw.choice(backends), timeout,
        )  # fmt: skip
        return fault.of_nccl() if fault.backend == "nccl" else fault

    def of_nccl(self) -> Fault:
        """One that NCCL has to notice: its connections are its own, and who sends waits for nobody,
        so a member that is slow to receive, or receives nothing, fails nothing."""
        kind = "killed" if self.kind == "closed" else self.kind
        collective = self.collective
        if kind == "slow" and collective in ROOTED:
            collective = "all_reduce"
        if kind == "root" and collective in ("gather", "scatter"):
            collective = "reduce"
        return dataclasses.replace(self, kind=kind, collective=collective)


# ---- a member ------------------------------------------------------------------------------------


def collective(
    dist: Any, torch: Any, name: str, count: int, rank: int, size: int, **odd: Any
) -> Any:
    """A call of a collective; odd: what this rank does otherwise."""
    later, dtype = odd.get("later", False), odd.get("dtype", torch.float32)
    root, op = odd.get("root", 0), odd.get("op", dist.ReduceOp.SUM)
    device = odd.get("device", "cpu")

    def one() -> Any:
        return torch.ones(count, dtype=dtype, device=device)

    def several() -> Any:
        return [one() for _ in range(size)]

    if name == "all_reduce":
        return dist.all_reduce(one(), op, async_op=later)
    if name == "broadcast":
        return dist.broadcast(one(), root, async_op=later)
    if name == "reduce":
        return dist.reduce(one(), root, op, async_op=later)
    if name == "all_gather":
        return dist.all_gather(several(), one(), async_op=later)
    if name == "gather":
        return dist.gather(one(), several() if rank == root else None, root, async_op=later)
    if name == "scatter":
        return dist.scatter(one(), several() if rank == root else None, root, async_op=later)
    if name == "reduce_scatter":
        return dist.reduce_scatter(one(), several(), op, async_op=later)
    if name == "all_to_all":
        return dist.all_to_all(several(), several(), async_op=later)
    return dist.barrier(async_op=later)


def close_connections(store_port: int) -> None:
    """Breaks all connections of this process but the store's."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as each:
                if each.family in (socket.AF_INET, socket.AF_INET6):
                    if store_port not in (each.getpeername()[1], each.getsockname()[1]):
                        each.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


class Member:
    """One rank of a group with a fault."""

    def __init__(self, fault: Fault, rank: int, port: int) -> None:
        import tritorch as torch
        import tritorch.distributed as dist

        self.torch, self.dist = torch, dist
        self.fault, self.rank, self.port = fault, rank, port
        self.mine = rank == fault.rank
        self.device = "cuda" if fault.backend == "nccl" else "cpu"
        self.start = 0.0

    def run(self) -> dict[str, Any]:
        """Does its part, and says what came of it."""
        dist, fault = self.dist, self.fault
        store = dist.TCPStore("127.0.0.1", self.port, timeout=timedelta(seconds=START))
        dist.init_process_group(
            fault.backend, store=store, rank=self.rank, world_size=fault.size,
            timeout=timedelta(seconds=START),
        )  # fmt: skip
        scene = getattr(self, f"scene_{fault.scene}")
        prepared = scene(None)
        dist.barrier()
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=fault.timeout))
        self.start = time.monotonic()
        try:
            scene(prepared or self)
            self.until_it_fails()
        except RuntimeError as error:
            seconds = time.monotonic() - self.start
            if not isinstance(error, dist.DistBackendError):
                return {"seconds": seconds, "wrong": f"{type(error).__name__}: {error}"}
            return {"seconds": seconds, "text": str(error)}
        return {"seconds": time.monotonic() - self.start, "wrong": "no error"}

    def until_it_fails(self) -> None:
        """What a program would go on with: who did not hear of the fault does so here."""
        for _ in range(3):
            self.dist.all_reduce(self.torch.ones(1, device=self.device))
            if self.device == "cuda":
                self.torch.cuda.synchronize()

    def strike(self) -> None:
        """This rank's fault, where it is one of the process."""
        kind = self.fault.kind.removesuffix("_halfway")
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if kind == "slow":
            time.sleep(self.fault.timeout + 1)
            self.start = time.monotonic()
        if kind == "closed":
            close_connections(self.port)

    def call(self, name: str, **odd: Any) -> Any:
        fault = self.fault
        count = odd.pop("count", fault.count)
        return collective(
            self.dist, self.torch, name, count, self.rank, fault.size, device=self.device, **odd
        )

    def scene_collective(self, prepared: Any) -> Any:
        """Good collectives, and the one at which it happens."""
        fault, dist = self.fault, self.dist
        if prepared is None:
            for _ in range(fault.good):
                self.call(fault.collective)
            return None
        odd: dict[str, Any] = {"later": fault.later}
        name = fault.collective
        if self.mine:
            if fault.kind.endswith("_halfway"):
                works = [self.call(name, later=True) for _ in range(3)]
                time.sleep(0.002)
                self.strike()
                return self.wait_all(works)
            self.strike()
            if fault.kind == "operation":
                name = "all_reduce" if name != "all_reduce" else "all_gather"
            elif fault.kind == "count":
                self.call("all_reduce", count=3)
            else:
                odd |= {
                    "shape": {"count": fault.count + 1}, "dtype": {"dtype": self.torch.int32},
                    "reduction": {"op": dist.ReduceOp.MAX}, "root": {"root": 1},
                }.get(fault.kind, {})  # fmt: skip
        elif fault.kind.endswith("_halfway"):
            return self.wait_all([self.call(name, later=True) for _ in range(6)])
        self.wait_all([self.call(name, **odd)])
        return None

    def wait_all(self, works: list[Any]) -> None:
        for work in works:
            if work is not None:
                work.wait()
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def scene_ddp(self, prepared: Any) -> Any:
        """Training; it happens in a backward pass, when some gradients have come."""
        torch, fault = self.torch, self.fault
        if prepared is None:
            torch.manual_seed(0)
            layers = [torch.nn.Linear(40, 40) for _ in range(4)]
            model = torch.nn.Sequential(*layers).to(self.device)
            wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
            for _ in range(fault.good + 1):
                self.step(wrapped, None)
            return wrapped
        if self.mine and fault.kind == "count":
            self.call("all_reduce", count=3)
        if self.mine and fault.kind == "operation":
            self.call("all_gather", count=3)
        self.step(prepared, self.strike if self.mine else None)
        return None

    def step(self, model: Any, strike: Any) -> None:
        torch = self.torch
        x = torch.ones(4, 40, device=self.device)
        for i, layer in enumerate(model.module):
            x = layer(x) if i else model.module[0](x)
        x = model(torch.ones(4, 40, device=self.device))
        if strike is not None:
            handle = model.module[1].weight.register_hook(lambda grad: strike())
        x.sum().backward()
        if strike is not None:
            handle.remove()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def scene_message(self, prepared: Any) -> Any:
        """Messages around a ring."""
        torch, dist, fault = self.torch, self.dist, self.fault
        if prepared is not None and self.mine:
            self.strike()
        for _ in range(fault.good if prepared is None else 1):
            tensors = [torch.ones(fault.count, device=self.device) for _ in range(2)]
            works = [
                dist.isend(tensors[0], (self.rank + 1) % fault.size),
                dist.irecv(tensors[1], (self.rank - 1) % fault.size),
            ]
            self.wait_all(works)
        return None


# ---- a process that forks members ----------------------------------------------------------------


def fork_member(fault: Fault, rank: int, port: int, path: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.environ["TRITORCH_GLOO_TRANSPORT"] = "tcp" if fault.transport == "tcp" else ""
        said = Member(fault, rank, port).run()
        Path(path).write_text(json.dumps(said))
        code = 0
        time.sleep(1.0)  # others may still ask for where it is
    except BaseException as error:
        said = {"seconds": 0, "wrong": f"{type(error).__name__}: {error}"}
        Path(path).write_text(json.dumps(said))
    finally:
        os._exit(code)


def finish(pids: list[int], silent: set[int], limit: float) -> None:
    """Waits for members, but not for those that will not speak; kills what is left."""
    end = time.monotonic() + limit
    left = {pid for i, pid in enumerate(pids) if i not in silent}
    while left and time.monotonic() < end:
        left = {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0] == 0}
        time.sleep(0.02)
    for i, pid in enumerate(pids):
        if pid in left or i in silent:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def serve() -> None:
    """Runs the faults that come as lines, one after the other."""
    import tritorch
    import tritorch.distributed  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        fault, port = Fault(**asked["fault"]), asked["port"]
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/{rank}" for rank in range(fault.size)]
            pids = [fork_member(fault, i, port, path) for i, path in enumerate(paths)]
            gone = fault.kind.removesuffix("_halfway") in GONE
            finish(pids, {fault.rank} if gone else set(), START + 2 * fault.timeout + GRACE + 10)
            said = [
                json.loads(Path(path).read_text()) if os.path.exists(path) else None
                for path in paths
            ]
        print(json.dumps(said), flush=True)


# ---- what is held --------------------------------------------------------------------------------

_PLACES = re.compile(r"\branks? ([\d, ]+): ((?:(?!; ranks? [\d, ]+:).)+)", re.I)
_OWN = re.compile(r"inject_faults\.py:\d+")


def tells(fault: Fault, rank: int, text: str) -> bool:
    """Whether an error says what the rank at fault does otherwise."""
    said = {
        int(each): place for ranks, place in _PLACES.findall(text) for each in ranks.split(", ")
    }
    at_fault = said.get(fault.rank, "")
    kind = fault.kind.removesuffix("_halfway")
    named = re.search(
        rf"\b(from|to|of) rank {fault.rank}\b|\brank {fault.rank} (is gone|has)", text
    )
    if kind in GONE:  # a message says itself of whom it waits
        return "silent" in at_fault or bool(named)
    if kind in ("slow", "closed") or rank == fault.rank:
        return bool(at_fault or named)
    others = [place for each, place in said.items() if each != fault.rank]
    return bool(at_fault) and at_fault not in others


def judged(fault: Fault, said: list[Any]) -> list[str]:
    """What is wrong with what the ranks said."""
    wrong = []
    for rank, each in enumerate(said):
        if rank == fault.rank and fault.kind.removesuffix("_halfway") in GONE:
            continue
        if each is None:
            wrong.append(f"rank {rank} hangs")
        elif "wrong" in each:
            wrong.append(f"rank {rank}: {each['wrong']}")
        else:
            if each["seconds"] > fault.timeout + GRACE:
                wrong.append(f"rank {rank} took {each['seconds']:.1f} s")
            text = each["text"]
            if not tells(fault, rank, text):
                wrong.append(f"rank {rank} does not tell of rank {fault.rank}: {text}")
            if not _OWN.search(text):
                wrong.append(f"rank {rank} names no line: {text}")
    return wrong


class Worlds(threading.Thread):
    """A process that forks members, and the thread that gives it faults."""

    def __init__(self, todo: list[Fault], done: list[Any], verbose: bool) -> None:
        super().__init__()
        self.todo, self.done, self.verbose = todo, done, verbose
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def run(self) -> None:
        from tritorch.distributed import TCPStore

        assert self.process.stdin is not None and self.process.stdout is not None
        while self.todo:
            try:
                fault = self.todo.pop(0)
            except IndexError:
                break
            store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            asked = {"fault": dataclasses.asdict(fault), "port": store.port}
            print(json.dumps(asked), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
            if not line:
                self.done.append((fault, [], ["the forking process has ended"]))
                return
            said = json.loads(line)
            wrong = judged(fault, said)
            self.done.append((fault, said, wrong))
            if wrong or self.verbose:
                print(fault, *(wrong or said), sep="\n   ", flush=True)
        self.process.stdin.close()
        self.process.wait()


def inject(faults: list[Fault], side_by_side: int = 2, verbose: bool = False) -> list[Any]:
    """Runs faults: (fault, what its ranks said, what is wrong) of each."""
    done: list[Any] = []
    todo = list(faults)
    worlds = [Worlds(todo, done, verbose) for _ in range(side_by_side)]
    for each in worlds:
        each.start()
    for each in worlds:
        each.join()
    return done


def report(done: list[Any]) -> None:
    """How many of each kind there were, how long they took, and what was wrong."""
    longest = [
        each["seconds"] - fault.timeout for fault, said, _ in done for each in said
        if each and "text" in each
    ]  # fmt: skip
    kinds = Counter((fault.scene, fault.kind.removesuffix("_halfway")) for fault, _, _ in done)
    bad = Counter(
        (fault.scene, fault.kind.removesuffix("_halfway")) for fault, _, wrong in done if wrong
    )
    for (scene, kind), count in sorted(kinds.items()):
        print(f"{scene:10} {kind:10} {count:4} faults, {bad[scene, kind]} wrong")
    print(f"{len(done)} faults, {sum(bool(wrong) for *_, wrong in done)} wrong; at most "
          f"{max(longest, default=0):.1f} s beyond the timeout")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this one alone")
    parser.add_argument("--timeout", type=float, default=1.5, help="seconds of a collective")
    parser.add_argument("--side-by-side", type=int, default=3)
    parser.add_argument("--backends", nargs="+", default=["gloo"], choices=["gloo", "nccl"])
    parser.add_argument("--json", type=Path, help="where all is written")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return 0
    numbers = range(args.first, args.first + args.faults) if args.only is None else [args.only]
    faults = [Fault.drawn(args.seed, i, args.timeout, args.backends) for i in numbers]
    done = inject(faults, min(args.side_by_side, len(faults)), verbose=args.only is not None)
    report(done)
    if args.json:
        rows = [dataclasses.asdict(f) | {"said": said, "wrong": wrong} for f, said, wrong in done]
        args.json.write_text(json.dumps(rows, indent=1))
    return any(wrong for *_, wrong in done)


if __name__ == "__main__":
    sys.exit(main())
