"""Every module against what PyTorch's printed and computed (recorded by tools/record/nn.py)."""

import json
import pathlib

import numpy as np
import pytest

import tritorch as torch
from tests.nn import cases

RECORDED = np.load(pathlib.Path(__file__).parent / "recorded.npz")
TEXTS = json.loads(str(RECORDED["texts"]))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("index", range(len(cases.CASES)), ids=lambda i: cases.CASES[i][0])
def test_as_recorded(index):
    recorded = TEXTS[index]
    assert recorded["case"] == cases.CASES[index][0], "run tools/record/nn.py again"
    found = cases.run(torch, index)
    assert found.pop("repr") == recorded["repr"]
    assert found.pop("state") == recorded["state"]
    prefix = f"{index} "
    names = {name[len(prefix) :] for name in RECORDED.files if name.startswith(prefix)}
    assert set(found) == names
    for name, value in found.items():
        expected = RECORDED[prefix + name]
        assert value.dtype == expected.dtype and value.shape == expected.shape, name
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6, err_msg=name)
