"""What may be written after an operator used it, with the real torch, may be written here."""

import json
import re
from pathlib import Path

import pytest

import tritorch

from . import cases

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
EVERY = [
    (family, expression) for family in cases.FAMILIES for expression in cases.expressions(family)
]

# What is kept here though not there, and why.
KEPT = {
    "torch.kron(x,y)": "PyTorch's gradient is silently wrong when x or y was written",
    "torch.polar(x,y)": "its gradients are those of cos and sin, right for negative x too",
}


def free(text: str) -> set[str]:
    return set(re.findall(r"(\w+): free", text))


def test_recorded_are_the_cases():
    assert {f: list(v) for f, v in RECORDED.items()} == {
        f: cases.expressions(f) for f in cases.FAMILIES
    }


@pytest.mark.parametrize(("family", "expression"), EVERY, ids=[e for _, e in EVERY])
def test_no_more_is_kept_than_in_pytorch(family, expression):
    theirs = RECORDED[family][expression]
    ours = cases.describe(tritorch, expression)
    if "Error" in theirs:
        return
    assert "Error" not in ours
    if expression not in KEPT:
        assert free(theirs) - free(ours) == set(), f"torch: {theirs}; ours: {ours}"


def test_exceptions_are_still_exceptions():
    for expression in KEPT:
        assert not free(cases.describe(tritorch, expression)) >= {"x", "y"}
