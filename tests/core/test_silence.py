"""NumPy's floating point errors stay unseen: NaN and infinities are results, as in PyTorch."""

import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch.nn import functional as F

nan, inf = float("nan"), float("inf")
EDGES = torch.tensor([0.0, -0.0, -1.0, 3e38, -3e38, inf, -inf, nan])
PROGRAMS = {
    "overflow": lambda x: (x * x, x + x, x - x, 2 * x, x.exp(), x.pow(3), x.square()),
    "undefined": lambda x: (
        x / 0,
        x.log(),
        x.sqrt(),
        x.asin(),
        x.fmod(0),
        x % 0,
        x.div(0, rounding_mode="floor"),
    ),
    "in place": lambda x: (x.clone().mul_(x), x.clone().div_(0), x.clone().log_()),
    "special": lambda x: (x.lgamma(), x.digamma(), torch.special.i1(x), x.erfinv(), x.atanh()),
    "sums": lambda x: (x.sum(), x.mean(), x.var(), x.norm(), x.cumsum(0), x.softmax(0)),
    "products": lambda x: (x @ x, torch.outer(x, x), F.linear(x, x[None]), x[None] @ x),
    "casts": lambda x: (x.int(), x.long(), x.to(torch.uint8), x.half(), x.to(torch.bool)),
    "large": lambda x: tuple(f(x.repeat(20_000)) for f in (torch.log, torch.add)[:1]),
    "complex": lambda x: (torch.complex(x, x).log(), 1 / torch.complex(x, x), x.cfloat() * x),
    "losses": lambda x: (F.cross_entropy(x[None], torch.tensor([0])), F.mse_loss(x, -x)),
    "fill": lambda x: (torch.full((3,), inf).int(), x.masked_fill(x > 0, nan), x.clamp(nan)),
}


@pytest.mark.parametrize("setting", ["warnings", "NumPy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_says_nothing(name, setting):
    leaf = EDGES.clone().requires_grad_()
    with warnings.catch_warnings(), np.errstate(all="raise" if setting == "NumPy" else "warn"):
        warnings.simplefilter("error")
        for out in PROGRAMS[name](EDGES):
            assert out.numel()
        for out in PROGRAMS[name](leaf):
            if out.requires_grad:
                out.abs().sum().backward()


def test_the_program_s_own_setting_stays():
    with np.errstate(divide="raise"):
        EDGES.log()
        with pytest.raises(FloatingPointError):
            np.log(np.zeros(1))
