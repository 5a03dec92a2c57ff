"""Recurrent networks on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch.ops.record.backends import backend

pytestmark = pytest.mark.device
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 2, 2, 1), (3,)])
def test_as_on_the_host(mode, kind, sizes):
    width = GATES[mode] * 5
    gates, w = numbers((sum(sizes), width), kind), numbers((width, 5), kind, 1) * kind(0.4)
    h = numbers((3, 5), kind, 2)
    c = numbers((3, 5), kind, 3) if mode == "lstm" else None
    for reverse in (False, True):
        b = numbers((width,), kind, 4) if mode == "gru" and reverse else None
        given = (h, c, w, b, mode, sizes, reverse)
        compare("recurrent", "scan", gates, *given, tolerance=4 * tolerance(kind))
        saved = backend("cpu", "recurrent").scan(gates, *given)
        g = numbers(saved[0].shape, kind, 5)
        compare("recurrent", "backward", g, *saved, *given, tolerance=8 * tolerance(kind))


def tolerance(kind):
    return {"float16": 4e-3, "bfloat16": 3e-2}.get(np.dtype(kind).name, 3e-5)


def test_weights_may_be_views():
    gates, h = numbers((6, 5)), numbers((3, 5), seed=1)
    w = numbers((5, 5), seed=2).transpose()
    compare("recurrent", "scan", gates, h, None, w, None, "rnn_tanh", (3, 3), False)
    saved = backend("cpu", "recurrent").scan(gates, h, None, w, None, "rnn_tanh", (3, 3), False)
    g = numbers(saved[0].shape, seed=3)
    compare("recurrent", "backward", g, *saved, h, None, w, None, "rnn_tanh", (3, 3), False)
