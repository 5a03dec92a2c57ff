"""`repr` as PyTorch's, against texts that tools/record/reprs.py recorded from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tritorch as torch
from tritorch.core.printing import get_printoptions

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast")

RECORDED = json.loads((Path(__file__).parent / "recorded_reprs.json").read_text())
CASES = RECORDED["cases"]
BY_OPTIONS = {}
for _text, _options, _printed in CASES:
    BY_OPTIONS.setdefault(json.dumps(_options), []).append((_text, _printed))


@pytest.fixture(autouse=True)
def _default_options():
    yield
    torch.set_printoptions(profile="default")


def printed(text):
    value = eval(text, {"torch": torch, "np": np})
    return value if isinstance(value, str) else repr(value)


SUFFIX = re.compile(r",\s+(?=(?:dtype|grad_fn|requires_grad|size)=)")


def check(text, recorded):
    got, want = printed(text), recorded.replace("torch.", "tritorch.")
    if "dtype=" in want:  # our longer name may move a suffix to a line of its own
        got, want = (SUFFIX.sub(", ", value) for value in (got, want))
    assert got == want, text


@pytest.mark.parametrize("text", [case[0] for case in CASES if not case[1]])
def test_repr(text):
    (want,) = {case[2] for case in CASES if case[0] == text and not case[1]}
    check(text, want)


@pytest.mark.parametrize("options", [key for key in BY_OPTIONS if key != "{}"])
def test_printoptions(options):
    torch.set_printoptions(**json.loads(options))
    for text, want in BY_OPTIONS[options]:
        check(text, want)


def test_suffixes_go_to_the_next_line_when_the_line_is_full():
    for count in range(1, 30):
        text = repr(torch.ones(count, dtype=torch.float64, requires_grad=True))
        lines = text.split("\n")
        assert max(map(len, lines)) <= 80
        for line, after in zip(lines, lines[1:]):
            first = after.strip().split(", ")[0]
            assert len(line) + len(first) > 77  # PyTorch counts more than there are
    assert text.endswith("\n       requires_grad=True)") or "float64, requires_grad" in text


def test_options_are_read_back():
    torch.set_printoptions(precision=2, threshold=7, edgeitems=1, linewidth=33, sci_mode=False)
    options = get_printoptions()
    assert options == {
        "precision": 2, "threshold": 7, "edgeitems": 1, "linewidth": 33, "sci_mode": False,
    }  # fmt: skip
    torch.set_printoptions(precision=5)  # sci_mode goes back to None each time
    assert get_printoptions()["sci_mode"] is None


def test_reprs_evaluate_to_the_tensor():
    world = {"tensor": torch.tensor, "tritorch": torch, "inf": np.inf, "nan": np.nan}
    torch.set_printoptions(precision=9)
    for kind in (torch.float32, torch.float64, torch.int16, torch.bool, torch.complex64):
        x = (torch.arange(12).reshape(2, 3, 2) - 5).to(kind) / (1 if kind is torch.bool else 7)
        x = x.to(kind)
        again = eval(repr(x), world)
        assert again.dtype is x.dtype and torch.allclose(again, x)


@pytest.mark.device
def test_on_a_gpu():
    x = torch.arange(3.0, device="cuda")
    assert repr(x) == "tensor([0., 1., 2.], device='cuda:0')"
    y = torch.ones(2, dtype=torch.int32, device="cuda", requires_grad=False)
    assert repr(y) == "tensor([1, 1], device='cuda:0', dtype=tritorch.int32)"
    assert "grad_fn=<MulBackward0>" in repr(x.requires_grad_() * 2)


def test_a_subclass_prints_its_name():
    class Labelled(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Labelled)
    assert isinstance(x, Labelled) and repr(x) == "Labelled([1., 1.])"
