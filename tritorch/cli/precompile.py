"""`python -m tritorch precompile`: compiles what a program will launch, without a GPU.

The program runs once for each target, in a process of its own, on the simulated device with
launches discarded (see Note [Tracing launches]): at its real sizes, in seconds, computing nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritorch.cli import commands

_COMPUTING = "poison=0,memory=512G"


CPU = 0  # as a target: of packages alone


def _target(text: str) -> int:
    if text == "cpu":
        return CPU
    found = re.fullmatch(r"(?:sm_)?(\d{2,3})a?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no target; one is sm_90")
    return int(found[1])


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = commands.Parser(
        prog="python -m tritorch precompile",
        description="Compile what a program (or, with --library, most programs) will launch on a "
        "GPU that need not be here, and keep it for later runs or pack it for other machines.",
    )
    made.add_argument(
        "--target",
        type=_target,
        action="append",
        default=[],
        metavar="sm_90",
        help="a GPU's compute capability; may be repeated; default: the GPU here",
    )
    made.add_argument("--library", action="store_true", help="kernels that many programs share")
    made.add_argument(
        "--plan",
        metavar="MODULE:FUNCTION | SCRIPT.py:FUNCTION",
        help="make a package (--pack FILE) that tritorch.load_package runs without the program's "
        "code and without Triton; the function gives an exported program, or (module, arguments, "
        "keyword arguments, dynamic_shapes), a list of those or a dict by names; --target may be "
        "cpu, too, which is the default where the tensors lie there",
    )
    made.add_argument(
        "--pack",
        metavar="FILE",
        help="write what was compiled into one file; "
        "with neither a program nor --library, everything that is kept",
    )
    made.add_argument("--unpack", metavar="FILE", help="keep what another machine packed")
    made.add_argument("--clear", action="store_true", help="remove everything that is kept first")
    made.add_argument(
        "--processors",
        type=int,
        metavar="N",
        help="multiprocessors of the GPU, for others than the largest of its kind",
    )
    made.add_argument("--jobs", type=int, metavar="N", help="how many compilers run side by side")
    made.add_argument(
        "--compute",
        action="store_true",
        help="really compute (slowly), for programs that depend on results",
    )
    made.add_argument("--inner", help=argparse.SUPPRESS)  # this process traces; its report's file
    made.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module; args")
    made.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="a program and its arguments, as for `python -m tritorch run`",
    )
    return made  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns the exit status."""
    made = parser()
    options = made.parse_args(argv)
    if options.module is not None:
        options.program = ["-m", *options.module]
    if options.inner:
        return _inner(options)
    try:
        _look(options)
    except commands.Refused as error:
        made.error(str(error))
    if options.plan:
        if not options.pack or options.program or options.library or options.unpack:
            made.error("--plan goes with --pack FILE, and with no program")
        from tritorch.compilation.package import command

        return command.package(options.plan, options.pack, options.target, options.jobs)
    if CPU in options.target:
        made.error("the CPU has no kernels: --target cpu goes with --plan")
    from tritorch.triton import cache

    wants = options.library or bool(options.program)
    if not (wants or options.pack or options.unpack or options.clear):
        made.error("name a program, --library, --pack, --unpack or --clear")
    if options.clear:
        print(f"{cache.clear()} kernels removed from {cache.root()}")
    if options.unpack:
        try:
            good, bad = cache.unpack(options.unpack)
        except (OSError, ValueError) as error:
            print(f"{options.unpack}: {error}", file=sys.stderr)
            return 1
        print(
            f"{len(good)} kernels unpacked to {cache.root()}" + (f", {bad} refused" if bad else "")
        )
        if bad:
            return 1
    status, places = 0, None
    if wants:
        places = []
        for target in options.target or _here(made):
            report = _traced(options, target)
            status = max(status, report["status"])
            places += report["places"]
    if options.pack:
        count = cache.pack(options.pack, places)
        size = Path(options.pack).stat().st_size
        print(f"{count} kernels packed into {options.pack} ({size / 1e6:.1f} MB)")
    return status


def _look(options: Any) -> None:
    """Refuses files that are not there, or cannot be written."""
    if options.program:
        commands.program(options.program)
    if options.unpack:
        commands.readable(options.unpack)
    if options.pack:
        commands.writable(options.pack)
    if options.plan:
        place = options.plan.rpartition(":")[0]
        if place.endswith(".py"):
            commands.readable(place)
        elif place:
            commands.module(place)


def _here(made: argparse.ArgumentParser) -> list[int]:
    from tritorch import _C
    from tritorch.triton import keys

    if _C.simulation_requested() or _C.device_count() == 0:
        made.error("there is no GPU here: name a --target, as sm_90")
    return sorted({keys.capability(i) for i in range(_C.device_count())})


def _traced(options: Any, target: int) -> dict[str, Any]:
    """What a process that traces and compiles for one target reports."""
    from tritorch.triton.trace import DISCARDING

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tritorch", "precompile", "--inner", str(report),
                   "--target", str(target)]  # fmt: skip
        for name in ("processors", "jobs"):
            if getattr(options, name):
                command += [f"--{name}", str(getattr(options, name))]
        command += ["--library"] if options.library else []
        setting = _COMPUTING if options.compute else DISCARDING
        environment = os.environ | {"TRITORCH_SIMULATE_CUDA": setting}
        done = subprocess.run([*command, *options.program], env=environment, check=False)
        if not report.exists():
            return {"status": done.returncode or 1, "places": []}
        return json.loads(report.read_text())


def _inner(options: Any) -> int:
    from tritorch.cli import common_kernels
    from tritorch.triton import cache, keys, trace

    (target,) = options.target
    started = time.monotonic()
    trace.pretend(target, options.processors)
    with trace.traced() as needs:
        failed = common_kernels.run() if options.library else []
        if options.program:
            failed += _run(options.program)
    place = keys.generation(target)
    found = [f"{place}/{key}" for known in needs.keys for key in known]
    count, compiled, sizes = len(needs.work), 0, 0
    print(f"sm_{target}: {count} kernels traced in {time.monotonic() - started:.1f} s", flush=True)
    started = time.monotonic()

    def store(index: int) -> int | str:
        try:
            return needs.store(index, target)
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            return f"{needs.work[index].name}: {type(error).__name__}: {first}"[:300]

    for each in trace.on_all_processors(store, count, options.jobs):
        if isinstance(each, str):
            failed.append(each)
        else:
            compiled, sizes = compiled + 1, sizes + each
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"\r\x1b[K{compiled} of {count}", end="", file=sys.stderr, flush=True)
    if sys.stderr is not None and sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    kept = sum(cache.read(*each.split("/")) is not None for each in found)
    if kept < len(found) and not failed:
        failed.append(f"nothing can be written to {cache.root()}: set TRITORCH_CACHE_DIR")
    found_by = keys.assembler(target)
    by = f" by {found_by.name} {found_by.version()}" if found_by is not None else ""
    print(f"sm_{target}: {compiled} kernels compiled{by} in {time.monotonic() - started:.1f} s, "
          f"{sizes / 1e6:.1f} MB; {kept} launches kept in {cache.root()}")  # fmt: skip
    for each in failed:
        print(f"  failed: {each}", file=sys.stderr)
    report = {"status": int(bool(failed)), "places": found}
    Path(options.inner).write_text(json.dumps(report))
    return report["status"]  # type: ignore[return-value]


def _run(program: list[str]) -> list[str]:
    """Runs a program as `python -m tritorch run` does; why it failed, if it did."""
    import traceback

    import tritorch
    from tritorch.compat import running

    run: Callable[[list[str]], int] = running.run
    try:
        status: Any = run(program)
    except SystemExit as end:
        status = end.code
    except Exception:
        traceback.print_exc()
        status = "it raised an error; what it had launched is compiled"
    tritorch.cuda.synchronize()
    return [f"{' '.join(program[:2])}: {status}"] if status else []
