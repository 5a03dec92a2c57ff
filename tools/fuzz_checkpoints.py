"""Loads mutated checkpoints, and counts what came of it.

    python tools/fuzz_checkpoints.py --count 100000 [--seed 0] [--report FILE]

Each mutation starts from a file of tests/serialization/files: bits flipped, bytes cut, moved in
from another file, or overwritten with sizes at the edges of what fields hold; half of them inside
of a zip's pickle, with checksums and directory made right again, so that the unpickler is reached.
`load(weights_only=True)` must then either give an object, all of whose tensors can be read, or
raise RuntimeError or UnpicklingError (EOFError for nothing at all).  Counted as failures: any other
exception, a crash of the process, more than SECONDS of time, more memory than the file's size and a
fixed multiple of its pickle allow, and any audited event that says that code ran.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import pickle
import random
import resource
import signal
import struct
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tritorch
from tritorch.serialization.archive import ArchiveReader, ArchiveWriter

FILES = Path(__file__).resolve().parents[1] / "tests" / "serialization" / "files"
SECONDS = 5
SLACK = 1 << 20  # bytes of memory that any load may take
# An empty set is one byte in a pickle and 216 in memory.
MULTIPLE = 300
REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError)
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
OPCODES = [getattr(pickle, name) for name in pickle.__all__ if name.isupper() and name != "HIGHEST"]
OPCODES = [code for code in OPCODES if isinstance(code, bytes)]
# Whole instructions, for the pickle's own size fields and what attackers would add.
SNIPPETS = (
    b"cos\nsystem\nX\x02\x00\x00\x00id\x85R",
    b"cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R",
    b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R",
    b"ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R",
    b"ctorch\nFloatTensor\nM\xff\xff\x85R",
    b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85R",
    b"X\xff\xff\xff\x7f", b"r\xff\xff\xff\xff", b"\x8a\xff", b"K\xff", b"J\xff\xff\xff\x7f",
    b"M\xff\xff", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x8a\x09" + b"\xff" * 8 + b"\x00",
    b"\x85" * 300, b"\x86" * 3, b"\x8f" * 200, b"2" * 10, b"h\x00" * 50, b"(h\x00h\x01t",
    b")\x81", b"}b", b"NQ", b"0", b"e", b"u",
)  # fmt: skip


# ---- mutations -----------------------------------------------------------------------------------


def _edit(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One edit of some bytes."""
    out = bytearray(data)
    at = rng.randrange(len(out) + 1)
    kind = rng.randrange(8)
    if kind == 0 and out:
        for _ in range(rng.choice((1, 1, 2, 8))):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del out[at:]
    elif kind == 2:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        part = other[start : start + rng.choice((1, 4, 16, 64, 512))]
        out[at : at + rng.choice((0, len(part)))] = part
    elif kind == 3:
        del out[at : at + rng.choice((1, 2, 4, 30))]
    elif kind == 4:
        size = rng.choice((1, 2, 4, 8))
        value = (rng.choice(EDGES) + rng.choice((-1, 0, 0, 1))) % 2 ** (8 * size)
        out[at : at + size] = value.to_bytes(size, rng.choice(("little", "little", "big")))
    elif kind == 5:
        out[at:at] = rng.choice(OPCODES)
    elif kind == 6:
        out[at:at] = rng.choice(SNIPPETS) * rng.choice((1, 1, 1, 20))
    else:
        part = bytes(out[at : at + rng.choice((1, 4, 32))])
        out[at:at] = part * rng.choice((1, 2, 50))
    return bytes(out)


def _edit_record(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """An edit inside of a zip: of its pickle, mostly, or of which records there are."""
    source = ArchiveReader(io.BytesIO(data))
    records = {name: source.read_at(*record[:2]) for name, record in source.records.items()}
    name = next(name for name in records if name.endswith("data.pkl"))
    if rng.random() < 0.15:
        name = rng.choice(list(records))
        if rng.random() < 0.5:
            del records[name]
    if name in records:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            records[name] = _edit(rng, records[name], others)
    out = io.BytesIO()
    writer = ArchiveWriter(out.write, "archive")
    for path, record in records.items():
        writer.add(path.partition("/")[2], record)
    writer.close()
    return out.getvalue()


def _edit_directory(rng: random.Random, data: bytes) -> bytes:
    """A size, offset or length field of a zip's headers at an edge."""
    signatures = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07")
    places = []
    for signature in signatures:
        at = data.find(signature)
        while at >= 0:
            places.append(at)
            at = data.find(signature, at + 1)
    at = rng.choice(places) + rng.randrange(4, 56)
    size = rng.choice((2, 4, 8))
    value = rng.choice((*EDGES, len(data), rng.randrange(len(data)))) % 2 ** (8 * size)
    return (data[:at] + value.to_bytes(size, "little") + data[at + size :])[: len(data)]


def mutate(rng: random.Random, seeds: list[bytes]) -> bytes:
    """A mutated checkpoint."""
    data = rng.choice(seeds)
    is_zip = data[:2] == b"PK"
    way = rng.random()
    if is_zip and way < 0.5:
        return _edit_record(rng, data, seeds)
    if is_zip and way < 0.65:
        return _edit_directory(rng, data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = _edit(rng, data, seeds)
    return data


# ---- judgement -----------------------------------------------------------------------------------


class TooSlow(BaseException):
    """A load took longer than SECONDS."""


_watching = False
_events: list[str] = []
_CODE = ("exec", "compile", "os.", "subprocess.", "import", "ctypes.", "socket.", "shutil.")
_HARMLESS = ("os.listdir", "os.scandir", "os.truncate")


def _audit(event: str, args: Any) -> None:
    if _watching and event.startswith(_CODE) and event not in _HARMLESS:
        _events.append(f"{event} {str(args)[:80]}")


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _tensors(value: Any, seen: set[int]) -> Iterator[Any]:
    stack = [value]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, tritorch.Tensor):
            yield value
        elif isinstance(value, dict):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set)):
            stack += value


def _touch(value: Any) -> None:
    """Reads every element, which would crash on a view that leaves its storage."""
    for tensor in _tensors(value, set()):
        if tensor.is_quantized:
            tensor.dequantize()
            tensor = tensor.int_repr()
        if tensor.numel() < 1 << 16:
            np.array(tensor.detach().numpy()).tobytes()
        elif tensor.numel():
            last = tensor[tuple(n - 1 for n in tensor.shape)]
            np.array(last.detach().numpy()).tobytes()


def judge(data: bytes, path: Path | None = None) -> str:
    """ "loaded", "refused", or what went wrong."""
    global _watching
    _events.clear()
    source: Any = io.BytesIO(data)
    if path is not None:
        path.write_bytes(data)
        source = path
    tracemalloc.clear_traces()
    before = tracemalloc.get_traced_memory()[0]
    _watching = True
    try:
        with _limits():
            try:
                value = tritorch.load(source, weights_only=True, mmap=path is not None)
                outcome = "loaded"
            except REFUSALS:
                value, outcome = None, "refused"
            except ValueError as error:  # PyTorch's type for this one
                if not str(error).startswith("Unknown endianness type"):
                    raise
                value, outcome = None, "refused"
            _watching = False
            peak = tracemalloc.get_traced_memory()[1] - before
            _touch(value)
    except TooSlow:
        return "too slow"
    except BaseException as error:
        return f"wrong exception: {type(error).__name__}: {str(error)[:80]}"
    finally:
        _watching = False
    if peak > len(data) + SLACK + MULTIPLE * len(data):
        return f"too much memory: {peak:,} bytes for a file of {len(data):,}"
    return f"ran code: {_events[0]}" if _events else outcome


def load_seeds(pattern: str = "*.pt") -> list[bytes]:
    """The files to mutate."""
    return [path.read_bytes() for path in sorted(FILES.glob(pattern))]


def one(index: int, seed: int, seeds: list[bytes], folder: Path) -> tuple[str, bytes]:
    """The outcome of one mutation; the same for the same numbers."""
    rng = random.Random(f"{seed}/{index}")
    data = mutate(rng, seeds)
    return judge(data, folder / "mutated.pt" if rng.random() < 0.1 else None), data


def _prepare() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:  # what is imported late is imported now
        for at, data in enumerate(load_seeds()):
            judge(data)
            judge(data[: len(data) // 2], Path(folder) / f"{at}.pt")
            judge(data, Path(folder) / f"{at}.pt")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def run(
    count: int, seed: int = 0, files: str = "*.pt", *, isolate: bool = True
) -> dict[str, list[int]]:
    """Outcomes and the indices of the mutations that had them."""
    outcomes: dict[str, list[int]] = collections.defaultdict(list)
    seeds = load_seeds(files)
    for start in range(0, count, 1000):
        indices = range(start, min(start + 1000, count))
        if isolate:
            for index, outcome in zip(indices, _in_child(indices, seed, seeds)):
                outcomes[outcome].append(index)
        else:
            with tempfile.TemporaryDirectory() as folder:
                for index in indices:
                    outcomes[one(index, seed, seeds, Path(folder))[0]].append(index)
        print(f"\r{indices[-1] + 1:,} of {count:,}", end="", file=sys.stderr, flush=True)
    return outcomes


def _in_child(indices: range, seed: int, seeds: list[bytes]) -> list[str]:
    """Outcomes by way of a process that may crash; it is started again after the one that did."""
    outcomes: list[str] = []
    while len(outcomes) < len(indices):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                _serve(writer, indices[len(outcomes) :], seed, seeds)
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            while size := pipe.read(4):
                outcomes.append(pipe.read(struct.unpack("<I", size)[0]).decode())
        status = os.waitpid(child, 0)[1]
        if len(outcomes) < len(indices):
            outcomes.append(f"crash: status {status}")
    return outcomes


def _serve(writer: int, indices: range, seed: int, seeds: list[bytes]) -> None:
    tracemalloc.start()
    _prepare()
    sys.addaudithook(_audit)
    with os.fdopen(writer, "wb") as pipe, tempfile.TemporaryDirectory() as folder:
        for index in indices:
            outcome = one(index, seed, seeds, Path(folder))[0].encode()
            pipe.write(struct.pack("<I", len(outcome)) + outcome)
            pipe.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", default="*.pt", help="which files are mutated")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    outcomes = run(options.count, options.seed, options.files)
    lines = [
        f"{len(indices):>8,}  {outcome}   (first: {indices[:3]})"
        for outcome, indices in sorted(outcomes.items(), key=lambda item: -len(item[1]))
    ]
    text = f"{options.count:,} mutations, seed {options.seed}\n" + "\n".join(lines) + "\n"
    print("\n" + text)
    if options.report:
        options.report.write_text(text)
    return 0 if set(outcomes) <= {"loaded", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
