"""Libraries in processes of their own, of which one runs at a time.

On a CPU a library's threads wait by spinning: in one process, or in two that run side by side, one
library's waiting would take the other's cores.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# What a machine may prescribe to keep results reproducible holds a library back.
PRESCRIBED = ("OPENBLAS_CORETYPE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


class Library:
    """A process that answers requests, one JSON a line; stopped between requests."""

    def __init__(
        self, name: str, command: Sequence[str | Path], threads: int | None = None
    ) -> None:
        limits = {}
        if threads is not None:
            names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            limits = dict.fromkeys(names, str(threads))
        inherited = {k: v for k, v in os.environ.items() if k not in PRESCRIBED}
        self.name = name
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=inherited | limits,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: see above")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # of what it never read
                    pipe.close()


def requests() -> Iterator[dict[str, Any]]:
    """What is asked of the process that runs this."""
    for line in sys.stdin:
        yield json.loads(line)


def answer(**found: Any) -> None:
    """Answers the last request."""
    print(json.dumps(found), flush=True)


@contextlib.contextmanager
def libraries(script: str, threads: int) -> Iterator[list[Library]]:
    """Ours, and PyTorch's if it is installed, each served by `script --serve NAME`."""
    names = ["tritorch"] + (["torch"] if importlib.util.find_spec("torch") else [])
    given: list[Library] = []
    try:
        for name in names:
            command = [sys.executable, script, "--serve", name, "--threads", str(threads)]
            given.append(Library(name, command, threads))
        yield given
    finally:
        for each in given:
            each.close()


def parser(text: str | None, results: Path, threads: int, rounds: int) -> argparse.ArgumentParser:
    """The arguments that all programs of this kind have."""
    made = argparse.ArgumentParser(description=(text or "").split("\n")[0])
    made.add_argument("--threads", type=int, default=threads)
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--json", nargs="?", const=results, type=Path)
    made.add_argument("--serve", help=argparse.SUPPRESS)
    return made


def compare(
    given: Sequence[Library], rounds: int, seconds: float, key: dict[str, Any], *,
    count: str, time: str, check: str, scale: float, tolerance: float, decimals: int = 4,
) -> dict[str, Any]:  # fmt: skip
    """Times by library, interleaved, and ours over torch's.

    A request has `key` and how many calls to make, under the name `count`; the answer has the
    time of one, under `time` in units of `scale` seconds, and under `check` a number that has to be
    the same for all libraries.
    """
    first = [each.ask(**key, **{count: 3, "check": True})[check] for each in given]
    needed = [each.ask(**key, **{count: 2})[time] for each in given]
    calls = max(int(seconds / scale / max(needed)), 1)
    taken = [[each.ask(**key, **{count: calls})[time] for each in given] for _ in range(rounds)]
    row: dict[str, Any] = {
        each.name: round(statistics.median(column), decimals)
        for each, column in zip(given, zip(*taken))
    }
    if len(given) == 2:
        row["ratio"] = round(statistics.median(ours / theirs for ours, theirs in taken), 4)
        if not math.isclose(*first, rel_tol=tolerance, abs_tol=10 * tolerance):
            raise AssertionError(f"{key}: the libraries' results differ: {first}")
        row[check] = first
    return row


def line(name: str, row: dict[str, Any], unit: str, width: int = 16) -> str:
    """One row as text."""
    texts = [f"{each} {row[each]:10.3f} {unit}" for each in ("tritorch", "torch") if each in row]
    texts += [f"ratio {row['ratio']:.2f}"] if "ratio" in row else []
    return f"{name:{width}} {'  '.join(texts)}"


def finish(path: Path | None, cases: dict[str, dict[str, Any]], title: str, **more: Any) -> None:
    """Prints the geometric mean of the ratios if there are any; writes the report if asked to."""
    from tritorch.bench import machine

    ratios = [row["ratio"] for row in cases.values() if "ratio" in row]
    mean = {"geometric mean of ratios": statistics.geometric_mean(ratios)} if ratios else {}
    for name, value in mean.items():
        print(f"{name}: {value:.2f}")
    if path:
        where = {"cpu": machine.cpu_name(), "cores": os.cpu_count()}
        whole = {title: cases, **more, **mean, "machine": where}
        path.write_text(json.dumps(whole, indent=1) + "\n")
