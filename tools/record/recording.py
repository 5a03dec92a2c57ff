"""The skeleton of the tools in record/ and compare/, which ask PyTorch what tritorch is held to.

Tools here import it as it is; those of compare/ put this folder on their path first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def read_cases(path: Path) -> Any:
    """The module at a path, whose package is not imported: that would need ours."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_json(path: Path, value: Any, *, indent: int | None = 1, **options: Any) -> None:
    """Writes a value as JSON, with a newline at its end."""
    path.write_text(json.dumps(value, indent=indent, **options) + "\n")


def write_rows(path: Path, rows: Mapping[str, Any]) -> None:
    """Writes a dict as JSON, a line for each key."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
    path.write_text(f"{{\n{lines}\n}}\n")


def write_or_check(texts: Mapping[Path, str], doc: str | None, counted: str) -> None:
    """Writes texts of lines into files; with --check, ends where one is another.

    counted: what their lines are, as it is printed."""
    import torch

    given = argparse.ArgumentParser(description=doc)
    given.add_argument("--check", action="store_true")
    check = given.parse_args().check
    for path, text in texts.items():
        if not check:
            path.write_text(text, encoding="ascii")
        elif path.read_text(encoding="ascii") != text:
            sys.exit(f"{path.relative_to(ROOT)} is another than this torch's")
        many = f"{path.name}: " if len(texts) > 1 else ""
        print(f"{many}{len(text.splitlines())} {counted} of torch {torch.__version__}")


def answers(python: str, *arguments: str | Path, **variables: str) -> Any:
    """The JSON that a process of an interpreter prints; ends with its errors if it fails."""
    done = subprocess.run(
        [python, "-W", "ignore", *map(str, arguments)], cwd=ROOT, env=os.environ | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def parser(doc: str | None, *, shown: int = 0) -> argparse.ArgumentParser:
    """A parser with a docstring's first line as description; shown: the default of --shown."""
    found = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    if shown:
        found.add_argument("--shown", type=int, default=shown, help="how many that differ to print")
    return found
