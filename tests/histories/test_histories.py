"""What autograd remembers of writes, and refuses, is what the real torch does."""

import json
from pathlib import Path

import pytest

import tritorch

from . import cases

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())["histories"]


@pytest.fixture(scope="session")
def found():
    return dict(cases.run(tritorch, "histories"))


@pytest.mark.parametrize("name", RECORDED)
def test_as_recorded(name, found):
    assert found[name] == RECORDED[name]


def test_recorded_are_the_cases(found):
    assert list(found) == list(RECORDED)
