"""Values and errors of expressions are those that the real torch gave."""

import json
from pathlib import Path

import pytest

import tritorch

from ..layouts import cases as layouts
from ..names import cases as names
from . import cases

SOURCES = (cases, layouts, names)
FAMILIES = [(source, family) for source in SOURCES for family in source.FAMILIES]


def recorded(source):
    return json.loads(Path(source.__file__).with_name("recorded.json").read_text())


RECORDED = {source: recorded(source) for source in SOURCES}


@pytest.mark.parametrize(("source", "family"), FAMILIES, ids=[family for _, family in FAMILIES])
def test_as_recorded(source, family):
    compare(source, family)


def compare(source, family):
    known, found = RECORDED[source][family], dict(source.run(tritorch, family))
    assert list(found) == list(known)
    wrong = [
        f"{expression}\n  ours:  {text}\n  torch: {known[expression]}"
        for expression, text in found.items()
        if text != known[expression]
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.device
@pytest.mark.parametrize("name", layouts.ON_DEVICES)
def test_layouts_on_the_gpu(name):
    with tritorch.device("cuda"):
        compare(layouts, f"layouts of {name}")
