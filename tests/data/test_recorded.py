"""Values, errors and warnings as PyTorch's."""

import json
from pathlib import Path

import pytest

import tritorch
from tests.data import cases

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
NAMES = cases.namespace(tritorch)


@pytest.mark.parametrize("expression", cases.EXPRESSIONS)
def test_as_recorded(expression):
    assert cases.answer(expression, NAMES) == RECORDED[expression]
