#!/usr/bin/env python3
"""Run PyTorch's own test files under the alias, and count what passes.

    python tools/run_torch_tests.py --tests pytorch/test test_fx.py test_pytree.py
    python tools/run_torch_tests.py --tests pytorch/test test_fx.py -- -k proxy -x

The files are PyTorch's (a checkout's folder `test`), and what they import of
`torch.testing._internal` is read from an installed torch, of which nothing else is imported: every
other name is tritorch's.  Arguments after `--` go to pytest.
"""

from __future__ import annotations

import argparse
import atexit
import fnmatch
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import tomllib
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


class _Internals:
    """Finds torch.testing._internal, torchgen and what torch vendors in the installed files."""

    def __init__(self, torch: Path) -> None:
        self.torch = torch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] == "torchgen":
            place = self.torch.parent.joinpath(*name.split("."))
        elif name.startswith(("torch.testing._internal", "torch._vendor")):
            place = self.torch.joinpath(*name.split(".")[1:])
        else:
            return None
        if (place / "__init__.py").exists():
            folder = [str(place)]
            return importlib.util.spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=folder
            )
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))


class _Functorch:
    """Finds submodules of functorch that nobody has: their names are errors when they are used."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("functorch."):
            return None
        return importlib.machinery.ModuleSpec(name, _FunctorchLoader(), is_package=True)  # type: ignore[arg-type]


class _FunctorchLoader:
    def create_module(self, spec: Any) -> types.ModuleType:
        from tritorch.compat import absent as _absent

        return _absent.AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def alias(internals: Path) -> None:
    """`import torch` gives tritorch from now on, but for PyTorch's helpers of tests."""
    from tritorch.compat import absent as _absent, as_torch

    # PyTorch's list of operators asks whether each has a function.
    _absent.AbsentName.__bool__ = lambda self: True  # type: ignore[method-assign]
    as_torch.as_torch()
    sys.meta_path.insert(0, _Internals(internals))  # type: ignore[arg-type]
    sys.meta_path.append(_Functorch)  # type: ignore[arg-type]
    from torch.testing._internal.optests import OpCheckError  # which torch.library raises there

    from tritorch._library import opcheck

    opcheck.OpCheckError = OpCheckError  # type: ignore[misc]


def alias_in_children() -> None:
    """Programs that tests start find the alias, too."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sites = [each for each in sys.path if each.endswith("site-packages")]
    text = f"import site\nfor each in {sites!r}:\n    site.addsitedir(each)\n"
    text += "from tritorch.compat import as_torch\nas_torch.as_torch()\n"
    Path(folder, "sitecustomize.py").write_text(text)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([before] if before else [])])


def without_a_compiler() -> None:
    """PyTorch's test cases of TorchScript set hooks of its compiler, which is not here."""
    from torch.testing._internal import common_utils, jit_utils

    common_utils.open_source_signpost = lambda **report: None
    case = jit_utils.JitTestCase
    case._restored_warnings = True
    case.setHooks = case.clearHooks = lambda self: None
    jit_utils.clear_class_registry = sys.modules["tritorch"]._C._jit_clear_class_registry
    # They load a library of C++ classes, which only a few of them use.
    torch = sys.modules["tritorch"]
    load = torch.ops.load_library
    torch.ops.load_library = lambda path: None if "torchbind_test" in str(path) else load(path)


def require_expecttest() -> None:
    """Stops with a sentence where the package is missing by which the tests compare texts."""
    if importlib.util.find_spec("expecttest") is None:
        raise SystemExit("PyTorch's tests want the package expecttest: pip install expecttest")


def stand_in(names: dict[str, list[str]]) -> None:
    """Puts something callable where old files import what torch no longer has."""
    for path, absent in names.items():
        try:
            module = importlib.import_module(path)
        except ImportError:
            module = sys.modules[path] = types.ModuleType(path)
        for name in absent:
            if name not in vars(module):  # tritorch's own are there already
                setattr(module, name, lambda *args, **kwargs: lambda function: function)


class Report:
    """A plugin of pytest: what is not counted is left out, and what passes is told at the end."""

    def __init__(self, families: dict[str, Any], reference: list[Path]) -> None:
        self.families = families
        self.referred = bool(reference)
        self.passing = [case for path in reference for case in passed(path)]
        self.outcomes: dict[str, str] = {}

    def family(self, case: str) -> str:
        """Why a case is not counted; "" of one that is."""
        return next(
            (
                name
                for name, each in self.families.items()
                if any(fnmatch.fnmatch(case, f"*{pattern}") for pattern in each["cases"])
            ),
            "",
        )

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Makes functions of the package builtins for tests that ask whether they are."""
        gate = type(sys.modules["tritorch"].add)
        for module in {item.module for item in items if hasattr(item, "module")}:
            if getattr(module, "types", None) is types:
                module.types = types.ModuleType("types")
                module.types.__dict__.update(vars(types))
                module.types.BuiltinFunctionType = (types.BuiltinFunctionType, gate)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes how a case went: its worst phase."""
        worse = report.failed or (report.skipped and report.when != "call")
        if report.when == "call" or worse:
            case = report.nodeid.rpartition("/")[2]
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            if self.outcomes.get(case) != "failed":
                self.outcomes[case] = outcome

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tells how many of the cases that count have passed."""
        write = terminalreporter.write_line
        known = self.passing if self.referred else self.outcomes
        counted = [c for c in known if not self.family(c)]
        if not self.referred:
            counted = [c for c in counted if self.outcomes[c] in ("passed", "failed")]
        missing = [c for c in counted if self.outcomes.get(c) != "passed"]
        out = len(known) - len(counted)
        write(
            f"counted: {len(counted) - len(missing)} of {len(counted)} pass; {out} are not counted"
        )
        for case in missing:
            write(f"  {self.outcomes.get(case, 'not there')}: {case}")


def passed(path: Path) -> list[str]:
    """The cases that passed in a report in JUnit's format, of a run of PyTorch itself."""
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if not any(case.find(kind) is not None for kind in ("failure", "error", "skipped")):
            module, _, name = case.get("classname", "").rpartition(".")
            found.append(f"{module.rpartition('.')[2]}.py::{name}::{case.get('name')}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=Path, required=True, help="PyTorch's folder `test`")
    parser.add_argument("--torch", type=Path, help="the folder of the installed torch")
    parser.add_argument(
        "--reference", type=Path, action="append", default=[],
        help="reports (--junitxml) of the same files run by PyTorch: what passes there is counted",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="count all cases")
    parser.add_argument("files", nargs="+")
    # argparse would take what comes after "--" for more files.
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, rest = parser.parse_known_args(sys.argv[1:cut])
    rest += sys.argv[cut + 1 :]
    found = importlib.util.find_spec("torch")
    torch = args.torch or Path(found.origin).parent  # type: ignore[union-attr, arg-type]
    require_expecttest()
    alias(torch)
    alias_in_children()
    without_a_compiler()
    sys.path.insert(0, str(args.tests))
    import pytest

    families = tomllib.loads(Path(__file__).with_name("torch_tests.toml").read_text())
    stand_in(families.pop("stand_ins"))
    del families["eager"]
    report = Report({} if args.all else families, args.reference)
    files = [str(args.tests / name) for name in args.files]
    return pytest.main(
        [*files, "-p", "no:cacheprovider", "-p", "no:logging", *rest], plugins=[report]
    )


if __name__ == "__main__":
    sys.exit(main())
