"""What may be written after an operator used it, with the real torch, may be written here, and
nothing else."""

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

# What may be written here though not there: gradients stay right.
FREE = {
    "their steps keep it in PyTorch": """torch.special.log_ndtr(x) torch.ldexp(x,rows[:1])
        torch.dist(x,y) torch.cdist(x,y) torch.polar(x,y) torch.linalg.lu(a)
        torch.linalg.householder_product(a,b[0]) torch.combinations(r) x.cumprod_(1)""",
    "their steps here need less": """F.pad(img,(1,1,1,1),mode='reflect') F.nll_loss(logits,classes)
        F.pad(img,(1,1,1,1),mode='replicate') F.multi_margin_loss(logits,classes)
        F.max_unpool2d(*F.max_pool2d(img,2,return_indices=True),2) F.layer_norm(x,(4,),c,d)
        F.fractional_max_pool2d(img,2,output_size=3) F.multilabel_margin_loss(x,places)""",
    "an expanded tensor": "torch.broadcast_tensors(x,r)",
}


def free(text: str) -> set[str]:
    return set(re.findall(r"(\w+): free", text))


def test_recorded_are_the_cases():
    assert {f: list(v) for f, v in RECORDED.items()} == {
        f: cases.expressions(f) for f in cases.FAMILIES
    }


@pytest.mark.parametrize(("family", "expression"), EVERY, ids=[e for _, e in EVERY])
def test_what_is_kept_in_pytorch_is_kept(family, expression):
    theirs = RECORDED[family][expression]
    ours = cases.describe(tritorch, expression)
    if "Error" in theirs:
        return
    assert "Error" not in ours
    if expression not in " ".join(FREE.values()).split():
        assert free(ours) - free(theirs) == set(), f"torch: {theirs}; ours: {ours}"
    if expression not in KEPT:
        assert free(theirs) - free(ours) == set(), f"torch: {theirs}; ours: {ours}"


def test_exceptions_are_still_exceptions():
    for expression in KEPT:
        assert not free(cases.describe(tritorch, expression)) >= {"x", "y"}
