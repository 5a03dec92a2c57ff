"""Nodes, hooks, saved tensors and custom functions do and say what they do and say in PyTorch."""

import json
from pathlib import Path

import pytest

import tritorch
from tritorch.core import defaults

from . import cases

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())["graphs"]

# What differs, and why.
OTHER = {
    "raw saved": "a leaf's other values come from a node, where PyTorch makes another leaf",
    "saved set": "the error of a node's attribute is Python's own",
    "vmap by generate_vmap_rule": "a batch ends with a node of its own",
    "vmap by a rule": "a batch ends with a node of its own",
    "split outputs": "each part is a view with a node of its own",
}


@pytest.fixture(scope="session")
def found():
    defaults._warned.clear()  # of tests before: a case asks for a warning that comes once
    return dict(cases.run(tritorch, "graphs"))


@pytest.mark.parametrize("name", RECORDED)
def test_as_recorded(name, found):
    if name in OTHER:
        assert found[name] != RECORDED[name], "no longer an exception"
    else:
        assert found[name] == RECORDED[name]


def test_recorded_are_the_cases(found):
    assert list(found) == list(RECORDED)
