"""How many kernels a first training step compiles: each costs a second of somebody's processor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COLD = Path(__file__).parents[3] / "bench" / "cold.py"
# Of GPT-2's sizes, whose layers are equal: two say what twelve would.
PLAIN, WRITTEN = 45, 20


@pytest.mark.slow
def test_a_cold_training_step_compiles_no_more_kernels():
    command = [sys.executable, str(COLD), "--count", "--layers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    first, second, third, fourth, last = json.loads(done.stdout)["steps"]
    assert first + second <= PLAIN  # the second one is recorded, and adds in one dtype more
    assert third == last == 0
    assert 0 < fourth <= WRITTEN
