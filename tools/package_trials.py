#!/usr/bin/env python3
"""Install packages beside tritorch, without torch, and try them.

    python tools/package_trials.py --venv .venv-packages             # the floor list
    python tools/package_trials.py --venv .venv-packages --all --record
    python tools/package_trials.py --venv .venv-packages timm kornia

A trial is a program in tests/packages/trials that uses an unmodified package as its users do and
says "ok" at its end.  The environment has a wheel of tritorch, torch's metadata (so that pip takes
torch for installed: `python -m tritorch stand-in`) and the packages of trials.toml.  A package that
cannot be had is skipped.  --record writes docs/packages.md, and
the versions that were tried.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TRIALS = ROOT / "tests/packages/trials"
PINS = TRIALS / "pins.txt"  # the versions that were tried, as pip's constraints
LIMIT = 600  # seconds that a trial may take
ALONE = ("torchvision", "torchaudio")  # ask for a torch of their own day: installed without it


class Trial(NamedTuple):
    """One program of the list."""

    name: str
    packages: list[str]
    versions: list[str]  # whose versions the page shows
    floor: bool
    gpu: bool  # it needs a GPU, which may be simulated
    what: str


class Outcome(NamedTuple):
    """What came of a trial."""

    state: str  # "ok", "failed", "skipped"
    seconds: float
    said: str


def trials() -> list[Trial]:
    """All trials, as trials.toml lists them."""
    table = tomllib.loads((TRIALS / "trials.toml").read_text())
    found = []
    for name, entry in table.items():
        first = (TRIALS / f"try_{name}.py").read_text().split('"""')[1]
        packages = entry["packages"]
        found.append(Trial(
            name, packages, entry.get("versions", packages[:1]), entry.get("floor", False),
            entry.get("gpu", False), " ".join(first.split()),
        ))  # fmt: skip
    return found


def run(python: Path, trial: Trial) -> Outcome:
    """Runs a trial in an environment."""
    modules = [v.replace("-", "_") for v in trial.versions]
    there = subprocess.run(
        [python, "-c", "import importlib.metadata as m, sys; [*map(m.version, sys.argv[1:])]",
         *modules],
        capture_output=True, check=False,
    )  # fmt: skip
    if there.returncode:
        return Outcome("skipped", 0.0, f"{', '.join(trial.versions)} cannot be had here")
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if trial.gpu:
        settings |= {"TRITORCH_SIMULATE_CUDA": settings.get("TRITORCH_SIMULATE_CUDA", "1")}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [python, "-m", "tritorch", "run", TRIALS / f"try_{trial.name}.py"], capture_output=True,
            text=True, check=False, env=settings, timeout=LIMIT,
            cwd=python.parent,  # where no checkout is taken for the package
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("failed", LIMIT, f"it took more than {LIMIT} s")
    took = time.perf_counter() - start
    if done.returncode == 0 and "ok" in done.stdout.splitlines()[-1:][0]:
        return Outcome("ok", took, "")
    return Outcome("failed", took, (done.stderr or done.stdout)[-3000:])


def prepare(venv: Path, wanted: list[Trial], wheel: Path | None, newest: bool) -> Path:
    """An environment with tritorch, torch's metadata and those packages that can be had."""
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    ours = str(wheel or ROOT)
    subprocess.run([*pip, ours], check=True)  # and then this one, whose version may be the same
    subprocess.run([*pip, "--force-reinstall", "--no-deps", ours], check=True)
    subprocess.run(
        [python, "-m", "tritorch", "stand-in"], check=True, stdout=subprocess.DEVNULL, cwd=venv
    )
    constraint = venv / "constraints.txt"
    pins = [] if newest else PINS.read_text().splitlines()
    constraint.write_text("\n".join(["torch==2.13.0+tritorch", *pins]) + "\n")
    settings = os.environ | {"PIP_CONSTRAINT": str(constraint)}
    alone = [p for p in ALONE for t in wanted if p in t.packages]
    for each in dict.fromkeys(alone):
        subprocess.run([*pip, "--no-deps", each], env=settings, check=False)
    names = dict.fromkeys(p for t in wanted for p in t.packages)
    if subprocess.run([*pip, *names], env=settings, check=False).returncode:
        for name in names:  # one that cannot be had must not take the others along
            subprocess.run([*pip, name], env=settings, check=False)
    return python


def versions(python: Path, trial: Trial) -> str:
    """The versions of what was tried."""
    code = (
        "import importlib.metadata as m, sys; "
        "print(', '.join(f'{v} {m.version(v)}' for v in sys.argv[1:]))"
    )
    done = subprocess.run(
        [python, "-c", code, *trial.versions], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def page(rows: list[tuple[Trial, Outcome, str]]) -> str:
    """docs/packages.md."""
    text = (TRIALS / "page.md").read_text()
    lines = ["| package | tried | what |", "|---|---|---|"]
    for trial, outcome, version in rows:
        state = "works" if outcome.state == "ok" else outcome.state
        where = ", on the simulated GPU" if trial.gpu else ""
        lines.append(f"| {version or trial.name} | {state}{where} | {trial.what} |")
    return text.replace("<!-- table -->", "\n".join(lines))


def main() -> int:
    """Runs the trials; the exit status says whether one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="the trials to run; by default those of the floor")
    parser.add_argument("--venv", type=lambda p: Path(p).absolute(), required=True)
    parser.add_argument("--wheel", type=Path, help="a wheel of tritorch; by default it is built")
    parser.add_argument("--all", action="store_true", help="every trial of the list")
    parser.add_argument(
        "--as-it-is", action="store_true", help="install nothing into the environment"
    )
    parser.add_argument("--newest", action="store_true", help="not the versions of pins.txt")
    parser.add_argument("--record", action="store_true", help="write docs/packages.md")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    known = {trial.name: trial for trial in trials()}
    wanted = [known[name] for name in options.names] or [
        t for t in known.values() if t.floor or options.all
    ]
    python = options.venv / "bin/python"
    if not options.as_it_is:
        python = prepare(options.venv, wanted, options.wheel, options.newest)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda t: run(python, t), wanted))
    for trial, outcome in zip(wanted, outcomes, strict=True):
        print(f"{trial.name:34} {outcome.state:8} {outcome.seconds:6.1f} s")
        if outcome.state != "ok":
            print("    " + outcome.said.strip().replace("\n", "\n    "))
    counts = {s: sum(o.state == s for o in outcomes) for s in ("ok", "failed", "skipped")}
    print(", ".join(f"{n} {s}" for s, n in counts.items()))
    if options.record:
        rows = [(t, o, versions(python, t)) for t, o in zip(wanted, outcomes, strict=True)]
        (ROOT / "docs/packages.md").write_text(page(rows))
        pins = {v.replace(" ", "==") for _, _, version in rows for v in version.split(", ") if v}
        PINS.write_text("\n".join(sorted(pins)) + "\n")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
