"""Values and errors of the lesser names are those that the real torch gave."""

import json
from pathlib import Path

import pytest

import tritorch

from . import cases

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_as_recorded(family):
    found = dict(cases.run(tritorch, family))
    assert list(found) == list(RECORDED[family])
    wrong = [
        f"{expression}\n  ours:  {text}\n  torch: {RECORDED[family][expression]}"
        for expression, text in found.items()
        if text != RECORDED[family][expression]
    ]
    assert not wrong, "\n\n".join(wrong)
