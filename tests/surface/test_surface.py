"""What PyTorch's source shows behaves as there: values, errors, warnings, reprs."""

import functools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .cases import FAMILIES

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text())
DIFFERS = tomllib.loads((HERE / "differs.toml").read_text())


AT_ONCE = 5  # families that one process runs; several, since each has to import all


@functools.cache
def found(first):
    """What the expressions of some families give, run in a process that knows tritorch as torch."""
    told = ("TRITORCH_SIMULATE_CUDA", "TRITON_INTERPRET", "NVIDIA_TF32_OVERRIDE")
    environment = {name: value for name, value in os.environ.items() if name not in told}
    done = subprocess.run(
        [sys.executable, "-m", "tests.surface.running", *list(FAMILIES)[first : first + AT_ONCE]],
        env=environment | {"CUDA_VISIBLE_DEVICES": ""},  # torch was recorded on a machine without
        capture_output=True, text=True, check=False, cwd=HERE.parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("place, family", [*enumerate(FAMILIES)])
def test_a_family(place, family):
    wrong = {
        line: (text, RECORDED[family][line])
        for line, text in found(place // AT_ONCE * AT_ONCE)[family].items()
        if text != RECORDED[family][line]
    }
    told = DIFFERS.get(family, {})
    assert not {line: pair for line, pair in wrong.items() if line not in told}
    agree_now = set(told) - set(wrong)
    assert not agree_now, "these agree now: take them out of differs.toml"


def test_enough_agree():
    total = sum(map(len, RECORDED.values()))
    apart = sum(map(len, DIFFERS.values()))
    assert total >= 3300 and apart <= 0.05 * total


def test_each_item_is_held():
    items = tomllib.loads((HERE / "coverage.toml").read_text())
    for section in items.values():
        for item, families in section.items():
            assert families, item
            for family in families:
                place = HERE.parents[1] / family.partition("::")[0]
                assert family in FAMILIES or place.exists(), (item, family)
