"""Compiles and links C++: what is out of date, several files at a time.

Beside each object lies a note with its command, and the times and sizes of all files that it was
made of, headers too: an object is made again when any of that is another.  Libraries are written
beside the old one and renamed, since another process may have that loaded.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

_HEADER = re.compile(
    r"fatal error: '?((torch|ATen|c10|caffe2|pybind11)/[\w./-]+)'?:? (?:No such|file not found)"
)
INSTEAD = (
    "Write the kernel in Triton and make an operator of it by torch.library.triton_op "
    "(docs/custom_operators.md), or write C++ that takes pointers or NumPy arrays (pybind11, "
    "nanobind, ctypes) and give its functions to torch.library.custom_op."
)


class Build(NamedTuple):
    """What is to be built, and where."""

    name: str
    sources: Sequence[str]
    folder: str
    compile_flags: Sequence[str]
    link_flags: Sequence[str]
    output: str  # the file's name in the folder
    verbose: bool


def compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, or c++."""
    return shlex.split(os.environ.get("CXX") or "c++")


def run(build: Build) -> str:
    """Builds what is out of date and gives the path of the library or program."""
    folder = Path(build.folder)
    objects = [folder / f"{Path(s).stem}-{i}.o" for i, s in enumerate(build.sources)]
    with ThreadPoolExecutor(jobs()) as pool:
        compiled = list(pool.map(lambda pair: _compile(build, *pair), zip(build.sources, objects)))
    target = folder / build.output
    command = [*compiler(), *map(str, objects), *build.link_flags, "-o", f"{target}.new"]
    note = folder / f"{build.output}.made"
    if any(compiled) or not target.exists() or _read(note).get("command") != command:
        _call(build, command)
        os.replace(f"{target}.new", target)
        note.write_text(json.dumps({"command": command}))
    return str(target)


def jobs() -> int:
    """How many compilers run at a time: $MAX_JOBS, or as many as there are processors."""
    most = os.environ.get("MAX_JOBS", "")
    return max(1, int(most)) if most.isdigit() else os.cpu_count() or 1


def _compile(build: Build, source: str, target: Path) -> bool:
    """Makes an object unless it is up to date; whether it was made."""
    depends, note = target.with_suffix(".d"), target.with_suffix(".made")
    command = [
        *compiler(), "-MMD", "-MF", str(depends), *build.compile_flags, "-c", source, "-o",
        str(target),
    ]  # fmt: skip
    known = _read(note)
    if known.get("command") == command and target.exists() and known["files"]:
        if all(_state(file) == state for file, state in known["files"].items()):
            return False
    note.unlink(missing_ok=True)
    _call(build, command)
    files = {file: _state(file) for file in _dependencies(depends.read_text())}
    note.write_text(json.dumps({"command": command, "files": files}))
    return True


def _read(note: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(note.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _state(file: str) -> list[int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def _dependencies(rule: str) -> list[str]:
    """The files behind the colon of a rule as make reads it."""
    text = rule.replace("\\\n", " ").partition(": ")[2]
    return [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text) if name]


def _call(build: Build, command: list[str]) -> None:
    if build.verbose:
        print(shlex.join(command), flush=True)
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise RuntimeError(
            f"Error building extension '{build.name}': there is no C++ compiler {command[0]!r} "
            f"({error.strerror}). Install one, or name it in the environment variable CXX."
        ) from None
    if build.verbose and done.stdout:
        print(done.stdout, end="", file=sys.stdout, flush=True)
    if done.returncode:
        raise RuntimeError(
            f"Error building extension '{build.name}': {done.stdout}{advice(done.stdout)}"
        )


def advice(output: str) -> str:
    """What to do where a compiler did not find a header; "" if that is not what it said."""
    lacks = _HEADER.search(output)
    if lacks is None:
        return ""
    if lacks[2] == "pybind11":
        return "\npybind11's headers are not installed: pip install pybind11."
    return (
        f"\n<{lacks[1]}> is a header of libtorch, which tritorch does not have: no C++ that is "
        f"written against torch::Tensor or ATen can be compiled here. {INSTEAD}"
    )
