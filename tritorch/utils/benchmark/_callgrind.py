"""`Timer.collect_callgrind`: a statement's instructions, counted by valgrind in another process."""

from __future__ import annotations

import enum
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritorch.core.naming import package
from tritorch.utils.benchmark import _requests
from tritorch.utils.benchmark._counts import CallgrindStats, FunctionCounts, parse_callgrind

if TYPE_CHECKING:
    from tritorch.utils.benchmark import TaskSpec

_COMMANDS = ("valgrind", "callgrind_control", "callgrind_annotate")
_UNROLLED = 100  # executions in a block, so that the loop around them costs little
_OURS = re.compile(r"\b(tri)?torch\b")


class Serialization(enum.Enum):
    """How a global gets into the process that is measured."""

    PICKLE = 0
    TORCH = 1
    TORCH_JIT = 2


def _allowed_types() -> dict[Serialization, tuple[type, ...]]:
    from tritorch import jit, nn

    return {
        Serialization.PICKLE: (str, bytes, bool, int, float, complex),
        Serialization.TORCH_JIT: (jit.ScriptFunction, jit.ScriptModule),
        Serialization.TORCH: (nn.Module,),
    }


class CopyIfCallgrind:
    """Marks a global of a Timer that the process which is measured may have a copy of."""

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        allowed = _allowed_types()
        found = [method for method, types in allowed.items() if isinstance(value, types)]
        if not found:
            names = "\n".join(f"  {types!r}" for types in allowed.values())
            raise ValueError(
                f"Unsupported type: {type(value)}\n"
                f"`collect_callgrind` restricts globals to the following types:\n{names}"
            )
        self._value, self._setup, self._serialization = value, setup, found[0]

    @property
    def value(self) -> Any:
        """The global itself."""
        return self._value

    @property
    def setup(self) -> str | None:
        """Code to run before the copy is read."""
        return self._setup

    @property
    def serialization(self) -> Serialization:
        """How the copy is made."""
        return self._serialization

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:
        """The globals without marks."""
        return {k: v.value if isinstance(v, CopyIfCallgrind) else v for k, v in globals.items()}


def _copied(globals: dict[str, Any]) -> dict[str, CopyIfCallgrind]:
    """The globals that go to the other process; refuses those that are not marked."""
    tritorch = package()
    if globals.get("torch", tritorch) is not tritorch:
        raise ValueError("`collect_callgrind` does not support mocking out `torch`.")
    chosen = {k: v for k, v in globals.items() if k not in ("torch", "tritorch", "__builtins__")}
    for value in chosen.values():
        if not isinstance(value, CopyIfCallgrind):
            raise ValueError(
                "`collect_callgrind` requires that globals be wrapped in "
                "`CopyIfCallgrind` so that serialization is explicit."
            )
    return chosen


def _read_copies(globals: dict[str, CopyIfCallgrind], folder: Path) -> str:
    """Writes the globals into a folder, and returns the code that reads them."""
    from tritorch import jit, serialization

    lines = []
    for name, wrapped in globals.items():
        if wrapped.setup is not None:
            lines.append(textwrap.dedent(wrapped.setup))
        path = folder / f"{name}.data"
        if wrapped.serialization is Serialization.PICKLE:
            path.write_bytes(pickle.dumps(wrapped.value))
            lines.append(f"{name} = pickle.loads(pathlib.Path({str(path)!r}).read_bytes())")
        elif wrapped.serialization is Serialization.TORCH:
            serialization.save(wrapped.value, path)
            lines.append(f"{name} = tritorch.load({str(path)!r}, weights_only=False)")
        else:
            jit.save(wrapped.value, str(path))
            lines.append(f"{name} = tritorch.jit.load({str(path)!r})")
    return "\n".join(lines)


def _repeated(stmt: str, number: int) -> str:
    """The statement, number times, in a loop over blocks of it."""
    loops, rest = divmod(number, _UNROLLED)
    if loops == 1:  # no loop is cheaper than one of a single round
        loops, rest = 0, number
    block = textwrap.indent("\n".join([stmt] * _UNROLLED), "    ")
    parts = [f"for _ in range({loops}):\n{block}"] if loops else []
    return "\n".join([*parts, *[stmt] * rest])


_SCRIPT = """\
import gc
import pathlib
import pickle
import runpy
import sys
import time

{imports}
_running, _start, _begin, _end = runpy.run_path({requests!r})["requests"]()
if not _running():
    sys.exit("Process does not appear to be running callgrind.")
{load}
{setup}
_start()
for _ in range({warmup}):
{warmup_stmt}
gc.collect()
time.sleep(0.01)
for _ in range({repeats}):
    _begin()
{stmt}
    _end()
    gc.collect()
"""
_BASELINE = """\
_begin()
{stmt}
_end()
"""


def _script(spec: TaskSpec, load: str, number: int, repeats: int, with_baseline: bool) -> str:
    # A statement of plain Python is measured without the package, whose import takes long there.
    imports = ""
    if _OURS.search("\n".join((spec.stmt, spec.setup, load))):
        root = str(Path(__file__).parents[3])
        imports = f"sys.path.insert(0, {root!r})\nimport tritorch\n"
        if sys.modules.get("torch") is package():
            imports += "from tritorch import _as_torch\n_as_torch.as_torch()\n"
        imports += f"torch = tritorch\ntorch.set_num_threads({spec.num_threads})\n"
    script = _SCRIPT.format(
        imports=imports,
        requests=_requests.__file__,
        load=load,
        setup=spec.setup,
        warmup=min(number, 10),
        warmup_stmt=textwrap.indent(spec.stmt, "    "),
        repeats=repeats,
        stmt=textwrap.indent(_repeated(spec.stmt, number), "    "),
    )
    return script + (_BASELINE.format(stmt=_repeated("pass", number)) if with_baseline else "")


def _validate() -> None:
    if not _requests.is_supported():
        raise OSError("Valgrind is not supported on this platform.")
    if missing := [command for command in _COMMANDS if shutil.which(command) is None]:
        raise OSError("Missing: " + ", ".join(missing))


def collect(
    spec: TaskSpec,
    globals: dict[str, Any],
    number: int,
    repeats: int,
    collect_baseline: bool,
    retain_out_file: bool,
) -> tuple[CallgrindStats, ...]:
    """Runs a generated script under valgrind: a count for each repetition, and one of `pass`."""
    _validate()
    with tempfile.TemporaryDirectory(prefix="callgrind") as name:
        folder = Path(name)
        load = _read_copies(_copied(globals), folder)
        script, out = folder / "timer_callgrind.py", folder / "callgrind.out"
        script.write_text(_script(spec, load, number, repeats, collect_baseline))
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-line=yes",
            "--instr-atstart=no", "--collect-atstart=no", sys.executable, str(script),
        ]  # fmt: skip
        # Hashes of words decide how dictionaries are searched.
        environment = os.environ | {
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": str(spec.num_threads),
        }
        run = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if run.returncode:
            raise OSError(f"Failed to collect callgrind profile:\nUnknown error.\n{run.stdout}")
        dumps = [Path(f"{out}.{i + 1}").read_text() for i in range(repeats + collect_baseline)]
    counts = [parse_callgrind(text) for text in dumps]
    nothing = FunctionCounts((), inclusive=True), FunctionCounts((), inclusive=False)
    baseline = counts[-1] if collect_baseline else nothing
    return tuple(
        CallgrindStats(spec, number, False, *baseline, *of_stmt, text if retain_out_file else None)
        for of_stmt, text in zip(counts[:repeats], dumps)
    )


CopyIfCallgrind.__module__ = "tritorch.utils.benchmark"
