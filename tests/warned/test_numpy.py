"""NumPy's warnings of what a float cannot hold never escape, forward or backward."""

import re
import warnings

import numpy as np
import pytest

import tritorch
from tests.nodes import cases
from tests.saved import cases as saved


def call(expression: str, value: float) -> None:
    """Runs an expression, forward and backward, on inputs of one value alone."""
    space = {"torch": tritorch, "F": tritorch.nn.functional, "rand": saved.rand(tritorch, [7])}
    space |= {name: eval(text, space) for name, text in cases.CONSTANTS.items()}
    for name in cases.INPUTS:
        if re.search(rf"(?<![\w.'=]){name}(?![\w'])", expression):
            leaf = eval(cases.INPUTS[name], space).fill_(value)
            space[name] = leaf.requires_grad_() * 1
    made = eval(expression, space | {"setitem": cases._setitem})
    for out in made if isinstance(made, (tuple, list)) else [made]:
        if isinstance(out, tritorch.Tensor) and out.requires_grad:
            total = tritorch.real(out.sum()) if out.is_complex() else out.sum()
            total.backward(retain_graph=True)


@pytest.mark.parametrize("value", [0.0, float("inf"), -1000.0])
def test_numpys_warnings_stay_unseen(value):
    escaped = []
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        for family in cases.FAMILIES:
            for expression in cases.expressions(family):
                try:
                    call(expression, value)
                except (RuntimeWarning, FloatingPointError) as error:
                    escaped.append((expression, error))
                except Exception:  # what such inputs are refused for
                    continue
    assert not escaped


@pytest.mark.parametrize(
    "program",
    [
        "torch.ones(2) / 0", "torch.zeros(2).log()", "(torch.ones(2) * 1000).exp()",
        "torch.ones(0).mean()", "torch.ones(0, 3).std(0)", "torch.zeros(2) / torch.zeros(2)",
        "torch.ones(2, dtype=torch.int32) // torch.ones(2, dtype=torch.int32)",
        "torch.full((2,), 3e38) * 10", "torch.tensor([1e30]).half()", "torch.zeros(2).rsqrt()",
        "torch.tensor(float('nan')).to(torch.int32)", "torch.ones(3, 3).inverse()",
    ],
)  # fmt: skip
def test_neither_filters_nor_settings_of_numpy_make_errors(program):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            eval(program, {"torch": tritorch})
        except tritorch.linalg.LinAlgError:
            assert "inverse" in program
