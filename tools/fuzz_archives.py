#!/usr/bin/env python3
"""Load damaged and hostile archives of TorchScript, and watch what they do.

    python tools/fuzz_archives.py --count 100000 [--seed N] [--archives FILE ...] [--jobs N]

Seeds are archives that tritorch writes of small programs, and those that are given.  Each mutant
has
bytes of the file, a record of its source, of a pickle, or its version changed.  A mutant may be
refused with an ordinary exception, or load and run.  It may not crash the process, take more than
--seconds or --memory, run code of the file, or open, start or connect to anything.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import random
import resource
import signal
import sys
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "socket.connect", "socket.bind", "shutil.rmtree", "os.remove", "os.rename",
             "ctypes.dlopen", "pty.spawn", "webbrowser.open")  # fmt: skip
ORDINARY = (RuntimeError, ValueError, TypeError, KeyError, EOFError, OSError, NotImplementedError,
            AttributeError, IndexError)  # fmt: skip
TOKENS = ("0", "1", "-1", "9223372036854775807", "None", "True", "[]", "()", "{}", "inf", "self",
          "torch.add", "torch.mul", "ops.aten.zeros", "__import__", "eval", "open", "exec",
          "getattr", "annotate(List[int], [])", "[0]", ".__class__", "*", "+", "(", ")", "while "
          "True:",
          "import os", "lambda: 0", '"a"', "torch.ones([1000000, 1000000])", "range(1000000000)",
          "return self", "forward", "__torch__", "CONSTANTS.c0", "Tensor", "int", "str",
          "@")  # fmt: skip


def programs() -> list[bytes]:
    """Archives of small programs that use most of the language."""
    import tritorch as torch

    warnings.simplefilter("ignore")
    sources = [
        """
def forward(self, x: Tensor, n: int) -> Tensor:
    out: List[Tensor] = []
    for i in range(n):
        if i == 2:
            continue
        out.append(x * i)
    while len(out) > 3:
        out.pop()
    return torch.stack(out)
""",
        """
def forward(self, x: Tensor, n: int) -> Dict[str, Tensor]:
    d: Dict[str, Tensor] = {}
    s = "a"
    if n > 1:
        d["b"] = x[0]
    else:
        d["c"] = x
    for k in ["x", "y"]:
        d[k + s] = x.sum(dim=0)
    assert n < 100, "too many"
    return d
""",
        """
def forward(self, x: Tensor, n: int) -> Tuple[Tensor, Optional[int]]:
    y: Optional[int] = None
    if n > 0:
        y = n * 2
    t = (x, n, "c")
    z = torch.cat([x, t[0]])
    return z.relu() + float(n), y
""",
    ]
    made = []
    for at, source in enumerate(sources):
        inner = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()))
        holder = torch.jit.script(_Empty(torch, at))
        holder.define(source)
        for each in (holder, inner):
            buffer = io.BytesIO()
            each.save(buffer)
            made.append(buffer.getvalue())
    return made


def _Empty(torch: Any, at: int) -> Any:
    class Empty(torch.nn.Module):
        """A module of one parameter."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2 + at))

    return Empty()


# ---- mutations -----------------------------------------------------------------------------------


def records(data: bytes) -> dict[str, bytes]:
    """The records of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], compress: bool) -> bytes:
    """An archive of records."""
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data, method if "/code/" in name else zipfile.ZIP_STORED)
    return out.getvalue()


def _bytes(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if not changed:
            break
        at = draw.randrange(len(changed))
        how = draw.random()
        if how < 0.5:
            changed[at] = draw.randrange(256)
        elif how < 0.7:
            del changed[at : at + draw.randrange(1, 9)]
        elif how < 0.9:
            changed[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
        else:
            end = min(len(changed), at + draw.randrange(1, 40))
            changed[at:at] = changed[at:end] * draw.choice((1, 2, 50))
    return bytes(changed)


def _source(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(lines))
        line = lines[at]
        how = draw.random()
        if how < 0.2:
            lines.insert(at, lines[draw.randrange(len(lines))])
        elif how < 0.3:
            del lines[at]
            lines = lines or [""]
        elif how < 0.4:
            lines[at] = " " * draw.randrange(0, 8) + line.strip()
        elif how < 0.45:
            lines[at] = line + "(" * draw.choice((1, 50, 400))
        else:
            words = line.split(" ")
            place = draw.randrange(len(words))
            words[place] = draw.choice(TOKENS) if draw.random() < 0.7 else words[place] * 3
            lines[at] = " ".join(words)
    return "\n".join(lines)


def mutant(seeds: list[bytes], draw: random.Random) -> bytes:
    """A changed archive."""
    data = draw.choice(seeds)
    how = draw.random()
    if how < 0.25:
        return _bytes(data, draw)
    parts = records(data)
    names = list(parts)
    if how < 0.7:
        code = [name for name in names if name.endswith(".py")]
        name = draw.choice(code)
        parts[name] = _source(parts[name].decode(), draw).encode("utf-8", "replace")
    elif how < 0.9:
        name = draw.choice([n for n in names if n.endswith(".pkl")])
        parts[name] = _bytes(parts[name], draw)
    elif how < 0.95:
        name = draw.choice([n for n in names if n.endswith("version")] or names)
        parts[name] = draw.choice((b"1", b"2", b"3", b"9", b"99", b"-1", b"x" * 100))
    else:
        name = draw.choice(names)
        parts.pop(name)
    return packed(parts, draw.random() < 0.5)


# ---- watching ------------------------------------------------------------------------------------


class Violation(BaseException):
    """Something that an archive may not do."""


def watch() -> None:
    """Raises on what nothing in an archive may cause; code is run from files of modules only."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            raise Violation(event)
        if event == "exec":
            name = getattr(args[0], "co_filename", "")
            caller = sys._getframe(1).f_code.co_filename
            is_library = caller.endswith(("dataclasses.py", "collections/__init__.py", "enum.py"))
            if name.startswith(("code/", "<string>", "<unknown>")) and not is_library:
                raise Violation(f"exec of {name}")
        if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
            raise Violation(f"open {args[0]!r} for writing")

    sys.addaudithook(hook)


def _too_slow(signum: int, frame: Any) -> None:
    raise Violation("it took too long")


def one(data: bytes, seconds: int) -> str:
    """Loads an archive and runs it: "refused", "loaded", or what it must not do."""
    import tritorch as torch
    from tritorch.jit.run.limits import Budget

    signal.alarm(seconds)
    try:
        module = torch.jit.load(io.BytesIO(data))
        with Budget(100_000, 1 << 20), contextlib.suppress(*ORDINARY, torch.jit.Error):
            module(torch.ones(2, 3), 4)
        return "loaded"
    except (*ORDINARY, torch.jit.Error):
        return "refused"
    except Violation as problem:
        return f"VIOLATION {problem}"
    except BaseException as error:
        return f"UNUSUAL {type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)


def work(args: tuple[int, int, int, int, list[bytes]]) -> dict[str, int]:
    """Runs one share of the mutants."""
    seed, count, seconds, memory, seeds = args
    import tritorch  # noqa: F401

    warnings.simplefilter("ignore")
    one(seeds[0], 60)  # imports what loading needs
    one(b"", 60)
    watch()
    signal.signal(signal.SIGALRM, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    draw = random.Random(seed)
    found: dict[str, int] = {}
    for at in range(count):
        result = one(mutant(seeds, draw), seconds)
        if result.startswith(("VIOLATION", "UNUSUAL")):
            print(f"seed {seed}, mutant {at}: {result}", flush=True)
        key = result.split(":")[0]
        found[key] = found.get(key, 0) + 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--archives", type=Path, nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20, help="for one mutant")
    parser.add_argument("--memory", type=int, default=6144, help="of a process, in MiB")
    args = parser.parse_args()
    seeds = programs() + [path.read_bytes() for path in args.archives]
    share = 500
    tasks = [
        (args.seed + at, min(share, args.count - at * share), args.seconds, args.memory, seeds)
        for at in range(-(-args.count // share))
    ]
    start, total, crashes = time.perf_counter(), {}, 0
    context = multiprocessing.get_context("spawn")
    running: list[Any] = []
    queue = context.SimpleQueue()
    while tasks or running:
        while tasks and len(running) < args.jobs:
            task = tasks.pop(0)
            process = context.Process(target=_put, args=(queue, task))
            process.start()
            running.append((process, task[0]))
        process, seed = running.pop(0)
        process.join()
        if process.exitcode:
            crashes += 1
            print(f"seed {seed}: the process ended with {process.exitcode}", flush=True)
            continue
        for key, number in queue.get().items():
            total[key] = total.get(key, 0) + number
    bad = crashes + sum(n for key, n in total.items() if key.startswith(("VIOLATION", "UNUSUAL")))
    print(f"{total} in {time.perf_counter() - start:.0f} s; {crashes} crashes")
    return int(bad > 0)


def _put(queue: Any, task: Any) -> None:
    queue.put(work(task))


if __name__ == "__main__":
    sys.exit(main())
