"""Programs, drawn at random or once different, do what they did with the real torch."""

import json
import pathlib

import numpy as np
import pytest

import tritorch

from . import programs

HERE = pathlib.Path(__file__)
RECORDED = [
    program
    for name in ("chains.json", "histories.json", "refusals.json")
    for program in json.loads(HERE.with_name(name).read_text())
]
PART = 40


@pytest.mark.parametrize("first", range(0, len(RECORDED), PART))
def test_as_recorded(first):
    wrong = []
    for statements, known in RECORDED[first : first + PART]:
        with np.errstate(all="ignore"):
            found = programs.run(tritorch, statements)
        for i, (ours, theirs) in enumerate(zip(found, known)):
            if not programs.same(ours, theirs):
                program = "\n".join(statements[: i + 1])
                wrong.append(f"{program}\n  ours:  {ours}\n  torch: {theirs}")
                break
    assert not wrong, "\n\n".join(wrong)
