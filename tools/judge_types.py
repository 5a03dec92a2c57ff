"""Counts what type checkers find: of planted mistakes all, in sound programs nothing.

    python tools/judge_types.py [mypy] [pyright] [jedi]

The package is looked at as one that is installed: in an environment of its own, under both names
(`import torch` by the stubs that `tritorch stand-in` brings).  tools/judged_types has the programs;
the examples of the repository are sound too.  jedi is asked which names it offers after a tensor.
Exits with 1 if a mistake is not found, an error is found where there is none, or a name is missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv

import tritorch
from tritorch.compat import stub_package

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(tritorch.__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
Found = set[tuple[str, int]]  # (file, line)


def environment(folder: pathlib.Path) -> pathlib.Path:
    """An environment with the package and its stand-in for torch; the path of its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (site / "tritorch").symlink_to(PACKAGE)
    spec = importlib.util.find_spec("numpy")
    assert spec is not None and spec.origin is not None
    (site / "numpy").symlink_to(pathlib.Path(spec.origin).parent)
    stub_package.write(site)
    return folder / "bin" / "python"


def programs(folder: pathlib.Path) -> list[pathlib.Path]:
    """The examples, and what is judged under both names of the package."""
    for file in EXAMPLES.glob("[a-z]*.py"):
        shutil.copy(file, folder)
    for file in (HERE / "judged_types").glob("*.py"):
        text = file.read_text()
        if file.stem == "by_torch_alone":
            shutil.copy(file, folder)
            continue
        (folder / f"torch_{file.name}").write_text(text)
        ours = text.replace("import torch\n", "import tritorch as torch\n")
        ours = ours.replace("import torch.", "import tritorch.").replace(
            "from torch", "from tritorch"
        )
        (folder / f"tritorch_{file.name}").write_text(ours)
    return sorted(folder.glob("*.py"))


def mypy(python: pathlib.Path, files: list[pathlib.Path]) -> Found:
    """Where mypy finds errors."""
    (files[0].parent / "mypy.ini").write_text("[mypy]\ncheck_untyped_defs = True\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(python), "--output", "json",
         *(file.name for file in files)],
        cwd=files[0].parent, capture_output=True, text=True,
    )  # fmt: skip
    if ran.returncode > 1:
        sys.exit(ran.stdout + ran.stderr)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    return reported((e["file"], e["line"], e["message"]) for e in found if e["severity"] == "error")


def pyright(python: pathlib.Path, files: list[pathlib.Path]) -> Found:
    """Where pyright finds errors."""
    settings = {"pythonVersion": "3.11", "reportUnusedExpression": False}
    (files[0].parent / "pyrightconfig.json").write_text(json.dumps(settings))
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", str(python), "--outputjson"],
        cwd=files[0].parent, capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    if not ran.stdout.startswith("{"):
        sys.exit(ran.stdout + ran.stderr)
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return reported(
        (pathlib.Path(e["file"]).name, e["range"]["start"]["line"] + 1, e["message"])
        for e in found
        if e["severity"] == "error"
    )


messages: dict[tuple[str, int], str] = {}


def completed(python: pathlib.Path) -> bool:
    """Prints how many of Tensor's public names jedi offers after `x.`; True if it is all."""
    import jedi

    project = jedi.Project(python.parents[1], environment_path=python)
    public = {name for name in dir(tritorch.Tensor) if not name.startswith("_")}
    right = True
    for program in (
        "import tritorch as torch\nx = torch.randn(3)\nx.",
        "import torch\nx = torch.randn(3)\nx.",
        "import torch\ndef forward(x: torch.Tensor):\n    x.relu().sum(1).",
        "import torch\ntorch.topk(torch.ones(3), 1).values.",
        "import torch\ntorch.nn.Linear(2, 3).weight.",
    ):
        offered = {name.name for name in jedi.Script(program, project=project).complete()}
        line = program.splitlines()[-1].strip()
        print(f"jedi    {line:40}{len(public & offered)} of {len(public)} names")
        right = right and public <= offered
    return right


def reported(errors: object) -> Found:
    """The places of errors; what is said of them goes into `messages`."""
    messages.clear()
    for file, line, message in errors:  # type: ignore[attr-defined]
        messages.setdefault((file, line), message)
    return set(messages)


def judge(checker: object, python: pathlib.Path, files: list[pathlib.Path]) -> bool:
    """Prints what a checker found; True if it is what it should be."""
    found = checker(python, files)  # type: ignore[operator]
    right = True
    for file in files:
        lines = file.read_text().splitlines()
        wrong = {(file.name, i) for i, line in enumerate(lines, 1) if line.endswith("# wrong")}
        here = {place for place in found if place[0] == file.name}
        missed, false = sorted(wrong - here), sorted(here - wrong)
        right = right and not missed and not false
        name = getattr(checker, "__name__", "")
        mistakes = f"{len(wrong & here)} of {len(wrong)} mistakes found, " if wrong else ""
        print(f"{name:8}{file.name:24}{mistakes}{len(false)} false errors")
        for place in missed:
            print(f"    missed: {lines[place[1] - 1]}")
        for place in false:
            print(
                f"    false: {place[1]}: {lines[place[1] - 1].strip()}\n        {messages[place]}"
            )
    return right


def main() -> int:
    """Judges by the tools that are asked for, all by default."""
    checkers = {"mypy": mypy, "pyright": pyright}
    asked = sys.argv[1:] or [*checkers, "jedi"]
    with tempfile.TemporaryDirectory() as folder:
        python = environment(pathlib.Path(folder) / "environment")
        place = pathlib.Path(folder) / "programs"
        place.mkdir()
        files = programs(place)
        verdicts = [judge(checkers[name], python, files) for name in asked if name in checkers]
        if "jedi" in asked:
            verdicts.append(completed(python))
        return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
