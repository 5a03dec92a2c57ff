"""Programs that are run under the alias: `python -m tritorch run`."""

from __future__ import annotations

import linecache
import runpy
import sys
import types
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tritorch.cli import commands
from tritorch.compat import as_torch
from tritorch.compat.as_torch import our_name

_USAGE = "usage: python -m tritorch run [-m MODULE | -c CODE | SCRIPT | -] [ARGUMENT ...]"


def run(arguments: Sequence[str], aliased: bool = True) -> int:
    """`python -m tritorch run script.py args...`, as `python script.py args...` would.  aliased:
    whether `import torch` gives tritorch in it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    first, rest = arguments[0], list(arguments[1:])
    try:
        commands.program([first, *rest])
    except commands.Refused as error:
        print(f"python -m tritorch run: {error}", file=sys.stderr)
        return 2
    if aliased:
        as_torch.as_torch()
    try:
        if first == "-m":
            if aliased and rest[0].partition(".")[0] == "torch":  # a program of PyTorch's: ours
                rest[0] = our_name(rest[0])
            sys.argv, sys.path[:0] = rest, [""]
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv, sys.path[:0] = ["-c", *rest[1:]], [""]
            _execute(rest[0], "<string>")
        elif first == "-":
            sys.argv, sys.path[:0] = ["-", *rest], [""]
            _execute(sys.stdin.read(), "<stdin>")
        elif Path(first).is_dir() or zipfile.is_zipfile(first):
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
        else:
            sys.argv, sys.path[:0] = [first, *rest], [str(Path(first).resolve().parent)]
            _execute(Path(first).read_bytes(), first)
    except SystemExit:
        raise
    except BaseException as error:
        # Python shows where the program was, from its first line: not how it was started.
        trace = error.__traceback__
        while trace is not None and _starts_programs(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        if isinstance(error, KeyboardInterrupt):
            return 130
        return 1
    return 0


def _execute(source: str | bytes, file: str) -> None:
    """Runs a program as the module `__main__`."""
    main = types.ModuleType("__main__")
    if not file.startswith("<"):
        main.__file__ = file
    else:  # what a traceback shows of it
        text = source if isinstance(source, str) else source.decode()
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    vars(main)["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    exec(compile(source, file, "exec", dont_inherit=True), vars(main))


def _starts_programs(file: str) -> bool:
    return file in (__file__, runpy.__file__, "<frozen runpy>") or file.startswith(
        "<frozen importlib"
    )
