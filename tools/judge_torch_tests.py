#!/usr/bin/env python3
"""Run PyTorch's own tests of eager mode under the alias, and record how many of each file pass.

    python tools/judge_torch_tests.py --site .venv/lib/python3.11/site-packages \\
        --reports FOLDER --tests FOLDER [FOLDER ...] -- [FILE ...]

FOLDER: trees that hold PyTorch's files, or copies of them that were made for another device; each
file is taken from the first tree that has it.  Run this with a Python of --site's version that has
PyTorch, scipy, pytest, pytest-timeout, expecttest and hypothesis: PyTorch runs each file first, and
what passes there is the denominator, less the families of tools/torch_tests.toml.  Reports stay in
--reports, so that PyTorch runs once.  --record writes bench/results/torch_tests.json, which may not
get worse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "torch_tests.md"
RECORDED = HERE.parent / "bench" / "results" / "torch_tests.json"
# A copy that was made for another device says so in these words; CUDA's are put back.
REWRITES = [
    (r"^(\s*)import torch_npu.*$", r"\1pass"),
    (r"^from url import.*$", ""),
    (r"get_url\(([^)]*)\)", r"'https://download.pytorch.org/test_data/' + \1 + '.pt'"),
    (
        r"^from torch_npu\.testing\.common_\w+ import (\w+).*$",
        r"\1 = lambda *a, **k: (lambda f: f)",
    ),
    (r"from torch_npu\.testing\.\w+ import ", "from torch.testing._internal.common_utils import "),
    (r"^DEVICE_NAME = .*$", "DEVICE_NAME = ''"),
    (r"torch_npu\.npu\.|torch_npu\.", "torch.cuda."),
    (r"PRIVATEUSE1|(?<![A-Za-z])NPU(?![A-Za-z])", "CUDA"),
    (r"privateuse1|(?<![A-Za-z])npu(?![A-Za-z])", "cuda"),
    (r",\s*only_for=[^)]*\)", ")"),
    # Names of one tree's own, and an import that PyTorch no longer has.
    (r"\b(Base|WeightNorm|NearlyDiagonal|Implemented)Pruner\b", r"\1Sparsifier"),
    (r"ao\.pruning\.pruner\b", "ao.pruning.sparsifier"),
    (r"^    BUILD_WITH_CAFFE2,$", ""),
    (r"not BUILD_WITH_CAFFE2", "True"),
    # What newer versions of Python and setuptools no longer have.
    (r"^from setuptools import distutils$", "from torch.torch_version import TorchVersion"),
    (r"distutils\.version\.LooseVersion", "TorchVersion"),
]


def adapted(tree: Path, folder: Path) -> Path:
    """A copy of a tree in which the device's words are CUDA's, made once."""
    copy = folder / f"tree_{tree.parent.name}_{tree.name}"
    if copy.exists():
        return copy
    for path in tree.rglob("*"):
        target = copy / path.relative_to(tree)
        if not path.is_file() or path.name == "conftest.py" or path.stat().st_size > 3_000_000:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".py":
            shutil.copyfile(path, target)
            continue
        text = path.read_text(errors="replace")
        for pattern, replacement in REWRITES:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        target.write_text(text)
    return copy


def run(command: list[Any], folder: Path, limit: float, **variables: str) -> str:
    """The output of a command; a file that does not end in time counts as far as it came."""
    environment = os.environ | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"} | variables
    try:
        done = subprocess.run(
            [str(each) for each in command], cwd=folder, env=environment, timeout=limit,
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return str(error.stdout or "")
    return done.stdout + done.stderr


def counts(text: str) -> dict[str, int] | None:
    """The counts that tools/run_torch_tests.py tells at its end."""
    found = re.search(r"counted: (\d+) of (\d+) pass; (\d+) are not counted", text)
    return dict(zip(("passed", "counted", "left_out"), map(int, found.groups()))) if found else None


def with_site(args: argparse.Namespace) -> Path:
    """A folder by which this Python finds the packages of the environment that has tritorch."""
    folder = args.reports / "site"
    folder.mkdir(exist_ok=True)
    text = f"import site\nsite.addsitedir({str(args.site.resolve())!r})\n"
    (folder / "sitecustomize.py").write_text(text)
    return folder


def judge(name: str, args: argparse.Namespace) -> dict[str, int] | None:
    """The counts of a file's cases that pass, of those that pass with PyTorch."""
    trees = [adapted(tree.resolve(), args.reports) for tree in args.tests]
    tree = next((each for each in trees if (each / f"{name}.py").exists()), None)
    if tree is None:
        return None
    report = args.reports / f"{name.replace('/', '_')}.xml"
    options = ["-q", "-p", "no:cacheprovider", "--timeout", 60]
    if not report.exists():
        pytest = [sys.executable, "-m", "pytest", *options, "--junitxml", report, f"{name}.py"]
        run(pytest, tree, args.limit)
    command = [
        sys.executable, HERE / "run_torch_tests.py", "--tests", tree, "--torch", args.torch,
        "--reference", report, f"{name}.py", "--", *options,
        "--junitxml", report.with_suffix(".tritorch.xml"),
    ]  # fmt: skip
    text = run(command, tree, args.limit, PYTHONPATH=str(with_site(args)))
    report.with_suffix(".log").write_text(text)
    return counts(text)


def totals(recorded: dict[str, dict[str, int]]) -> tuple[int, int]:
    """The cases that pass, and those that count, of all files."""
    passed = sum(each["passed"] for each in recorded.values())
    return passed, sum(each["counted"] for each in recorded.values())


def show(recorded: dict[str, dict[str, int]]) -> None:
    """Writes the table of the page."""
    rows = ["| file | pass | of | |", "|---|--:|--:|--:|"]
    for name, each in sorted(recorded.items()):
        share = each["passed"] / max(1, each["counted"])
        rows.append(f"| {name} | {each['passed']} | {each['counted']} | {share:.1%} |")
    passed, counted = (
        sum(each[key] for each in recorded.values()) for key in ("passed", "counted")
    )
    rows.append(f"| all | {passed} | {counted} | {passed / max(1, counted):.1%} |")
    head = PAGE.read_text().partition("| file |")[0]
    PAGE.write_text(head + "\n".join(rows) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=Path, nargs="+", required=True, help="trees of tests")
    parser.add_argument("--reports", type=Path, required=True, help="where reports and copies lie")
    parser.add_argument("--torch", type=Path, help="the folder of the installed torch")
    parser.add_argument("--site", type=Path, required=True, help="site-packages with tritorch")
    parser.add_argument("--limit", type=float, default=1800, help="seconds a file may take")
    parser.add_argument("--record", action="store_true", help="write the counts")
    parser.add_argument("files", nargs="*", help="files without .py; by default all")
    args = parser.parse_args()
    if args.torch is None:
        import torch

        args.torch = Path(torch.__file__).parent
    args.reports = args.reports.resolve()
    args.reports.mkdir(parents=True, exist_ok=True)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    worse = []
    lists = tomllib.loads((HERE / "torch_tests.toml").read_text())["eager"]
    files = [*lists["files"], *lists["quantization"]]
    for name in args.files or files:
        found = judge(name, args)
        if found is None:
            print(f"{name}: no tree has it, or it does not run", flush=True)
            continue
        share = found["passed"] / max(1, found["counted"])
        print(f"{name}: {found['passed']} of {found['counted']}, {share:.1%}", flush=True)
        if found["passed"] < recorded.get(name, found)["passed"]:
            worse.append(name)
        recorded[name] = found
    passed, counted = (
        sum(each[key] for each in recorded.values()) for key in ("passed", "counted")
    )
    print(f"all: {passed} of {counted}, {passed / max(1, counted):.1%}")
    if args.record:
        RECORDED.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n")
        show(recorded)
    if worse:
        print(f"fewer than recorded: {', '.join(worse)}")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
