#!/usr/bin/env python3
"""Run PyTorch's own test files under the alias, and count what passes.

    python tools/run_torch_tests.py --tests pytorch/test test_fx.py test_pytree.py
    python tools/run_torch_tests.py --tests pytorch/test test_fx.py -k proxy -x

The files are PyTorch's (a checkout's folder `test`), and what they import of
`torch.testing._internal` is read from an installed torch, with what that imports of `torchgen` and
`torch._vendor`: every other name is tritorch's.  Other arguments go to pytest.  Tests that the
files `torch_tests*.toml` beside this name, with reasons, are left out (`--all`: they are not).
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

from torch_tests_left_out import LeftOut

_HELPERS = ("torch.testing._internal", "torch._vendor", "torchgen")


class _Internals:
    """Finds what the tests' helpers are made of in the installed torch's files."""

    def __init__(self, torch: Path) -> None:
        self.torch = torch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not any(name == each or name.startswith(f"{each}.") for each in _HELPERS):
            return None
        place = self.torch.parent.joinpath(*name.split("."))
        if (place / "__init__.py").exists():
            folder = [str(place)]
            return importlib.util.spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=folder
            )
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))


def alias(internals: Path) -> None:
    """`import torch` gives tritorch from now on, but for PyTorch's helpers of tests."""
    from tritorch import _absent, _as_torch

    _as_torch.as_torch()
    # The table of operators asks whether each has a function, many of which are not here.
    _absent.AbsentName.__bool__ = lambda name: True  # type: ignore[method-assign]
    sys.meta_path.insert(0, _Internals(internals))  # type: ignore[arg-type]
    from torch.testing._internal.optests import OpCheckError  # which torch.library raises there

    from tritorch._library import opcheck

    opcheck.OpCheckError = OpCheckError  # type: ignore[misc]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=Path, required=True, help="PyTorch's folder `test`")
    parser.add_argument("--torch", type=Path, help="the folder of the installed torch")
    parser.add_argument("--all", action="store_true", help="leave nothing out")
    parser.add_argument("files", nargs="+")
    args, rest = parser.parse_known_args()
    found = importlib.util.find_spec("torch")
    torch = args.torch or Path(found.origin).parent  # type: ignore[union-attr, arg-type]
    alias(torch)
    sys.path.insert(0, str(args.tests))
    import pytest

    left_out = LeftOut()
    left_out.stand_in()
    files = [str(args.tests / f) for f in args.files]
    plugins = [] if args.all else [left_out]
    options = ["-p", "no:cacheprovider", "-p", "no:logging"]  # LoggingTensor logs what is no text
    return pytest.main([*files, *options, *rest], plugins=plugins)


if __name__ == "__main__":
    sys.exit(main())
