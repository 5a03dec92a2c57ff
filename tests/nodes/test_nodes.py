"""Nodes are called as in PyTorch and have its saved attributes, expression by expression."""

import json
import warnings
from pathlib import Path

import pytest

import tritorch

from . import cases

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())

# What has another node here, and why.
OTHER = {
    "what PyTorch cannot differentiate has a gradient here": """0.5%x torch.remainder(0.5,x)
        x.scatter(1,places,y,reduce='add') x.scatter(1,places,0.5,reduce='multiply')""",
    "PyTorch's nodes of it only raise": "x.unique().sum() torch.linalg.ldl_factor(a@a.T)",
    "lists of tensors are single calls": """torch._foreach_add([x,y],1) torch._foreach_mul([x],[y])
        torch._foreach_sqrt([x,y]) torch._foreach_norm([x,y])""",
    "it is written in other steps": """torch.special.ndtr(x) torch.broadcast_tensors(x,r)
        torch.nn.utils.rnn.pad_sequence([x,y]) torch.special.round(x) torch.ops.aten.alias(x)
        torch.native_group_norm(img,c,d,2,4,36,2,1e-5)""",
    "it is not there": "torch.segment_reduce(x,'sum',lengths=steps[:1]*3,axis=0,unsafe=True)",
}
EXCEPTIONS = {expression for text in OTHER.values() for expression in text.split()}
EVERY = [
    (family, expression)
    for family, expressions in RECORDED.items()
    for expression, theirs in expressions.items()
    if not isinstance(theirs, str)
]


def found(expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cases.describe(tritorch, expression)


def names(described):
    return [node[:2] for node in described] if isinstance(described, list) else described


def test_recorded_are_the_cases():
    assert {f: list(v) for f, v in RECORDED.items()} == {
        f: cases.expressions(f) for f in cases.FAMILIES
    }


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_nodes_are_called_as_in_pytorch(family):
    for expression in (e for f, e in EVERY if f == family and e not in EXCEPTIONS):
        theirs, ours = RECORDED[family][expression], found(expression)
        assert names(ours) == names(theirs), expression
        for (_, _, kept), (_, _, held) in zip(theirs, ours):
            assert sorted(held) == sorted(kept), expression


def test_exceptions_are_still_exceptions():
    for family, expression in EVERY:
        if expression in EXCEPTIONS:
            assert names(found(expression)) != names(RECORDED[family][expression]), expression


def test_most_saved_values_are_pytorchs():
    """The rest are tensors that are not kept here, and dims that PyTorch keeps as they were."""
    same = total = 0
    for family, expression in EVERY:
        ours = found(expression)
        if expression in EXCEPTIONS:
            continue
        for (_, _, kept), (_, _, held) in zip(RECORDED[family][expression], ours):
            total += len(kept)
            same += sum(held[name] == value for name, value in kept.items())
    assert same / total > 0.77, (same, total)
