"""Ordinary programs, which say `import torch`, print what they print with PyTorch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
RECORDED = json.loads((FOLDER / "recorded_programs.json").read_text())
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


@pytest.fixture(scope="session")
def found():
    """What all of them print, run by one command."""
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", FOLDER / "run_scripts.py"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "TRITORCH_SIMULATE_CUDA": "0", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", RECORDED)
def test_prints_what_it_does_with_torch(name, found):
    program = found[name]
    assert program["error"] is None, program["error"]
    lines = program["out"].splitlines()
    assert len(lines) == len(RECORDED[name])
    for line, expected in zip(lines, RECORDED[name]):
        assert NUMBER.sub("#", line) == NUMBER.sub("#", expected)
        # Narrow numbers are rounded where sums end, whose order differs: PyTorch itself gives
        # gradients' norms that are 1.1e-2 apart with one thread and with two.
        rel = 2e-2 if re.match(r"b?float16", line) else 2e-5
        values, wanted = (list(map(float, NUMBER.findall(text))) for text in (line, expected))
        assert values == pytest.approx(wanted, rel=rel, abs=1e-6), f"{line}\n{expected}"


def test_every_script_is_recorded():
    scripts = {path.stem for path in (FOLDER / "scripts").glob("*.py")} - {"seedless"}
    assert scripts == set(RECORDED)


def test_a_script_by_itself():
    """In a process of its own, as users run it."""
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", FOLDER / "scripts" / "mnist.py", "--epochs=1"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "TRITORCH_SIMULATE_CUDA": "0", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    half = RECORDED["mnist"]
    assert done.stdout.splitlines()[0].split("loss")[0] == half[0].split("loss")[0]
    assert done.stdout.splitlines()[-1] == half[-1]
