"""Which of PyTorch's own tests are left out, and why: what the `torch_tests*.toml` beside this say.

[stand_ins]                          # names that a file imports and that torch no longer has
"torch.old.module" = ["name"]

["test_file.py"."why these are left out"]
tests = ["Class::test_name", "Class::test_several_*"]
"""

from __future__ import annotations

import fnmatch
import importlib
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class LeftOut:
    """A plugin of pytest that deselects what the files of reasons name."""

    def __init__(self, folder: Path = HERE) -> None:
        self.patterns: dict[str, dict[str, str]] = {}  # by file, the reason of each pattern
        self.stand_ins: dict[str, list[str]] = {}
        for path in sorted(folder.glob("torch_tests*.toml")):
            for name, table in tomllib.loads(path.read_text()).items():
                if name == "stand_ins":
                    self.stand_ins |= table
                    continue
                for reason, entry in table.items():
                    reasons = self.patterns.setdefault(name, {})
                    reasons |= dict.fromkeys(entry["tests"], reason)
        self.counts: dict[str, int] = {}

    def reason(self, file: str, test: str) -> str | None:
        """Why a test ("Class::test_name") is left out; None: it is not."""
        patterns = self.patterns.get(file, {})
        return next((r for p, r in patterns.items() if fnmatch.fnmatchcase(test, p)), None)

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Takes them out, and counts them by reason."""
        kept, out = [], []
        for item in items:
            file, _, test = item.nodeid.partition("::")
            reason = self.reason(Path(file).name, test)
            (kept if reason is None else out).append(item)
            if reason is not None:
                self.counts[reason] = self.counts.get(reason, 0) + 1
        items[:] = kept
        config.hook.pytest_deselected(items=out)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Says how many were left out for which reason."""
        for reason, count in self.counts.items():
            terminalreporter.write_line(f"left out: {count:4} {reason}")

    def stand_in(self) -> None:
        """Puts something callable where old files import what torch no longer has."""
        for path, names in self.stand_ins.items():
            try:
                module = importlib.import_module(path)
            except ImportError:
                module = sys.modules[path] = types.ModuleType(path)
            for name in names:
                if name not in vars(module):  # tritorch's own are there already
                    setattr(module, name, lambda *args, **kwargs: lambda function: function)
