"""Every case of the table inside of vmap, and its gradient: as one example after the other, at
once."""

from __future__ import annotations

import numpy as np
import pytest
from table import CASES
from test_table import call, outputs

import tritorch as torch
from tritorch.func import vjp, vmap
from tritorch.ops.interpret import vmap as batches

# Records that run one example after the other: sizes or loops that depend on the values, random
# numbers by the vmap's mode, products of types with scales.
LOOPS = {
    "ctc_loss", "ctc_loss_backward", "recurrent", "recurrent_backward",
    "masked_select", "varlen_attention", "varlen_attention_backward", "jagged_to_padded",
    "padded_to_jagged",
}  # fmt: skip


def stacked(case, seeds=3):
    """The inputs of several examples."""
    return [torch.tensor(np.stack(v)) for v in zip(*(case.inputs(seed) for seed in range(seeds)))]


def example(xs, i):
    return [x[i].clone() for x in xs]


def assert_alike(got, want, name):
    for a, b in zip(got, want):
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("case", [c for c in CASES if "rrelu" not in c.name], ids=str)
def test_vmap_is_one_after_the_other(case, monkeypatch):
    loop = batches._one_by_one
    found = set()

    def watched(op, *rest):
        found.add(op.name)
        return loop(op, *rest)

    monkeypatch.setattr(batches, "_one_by_one", watched)
    xs = stacked(case)
    run = lambda *given: tuple(outputs(call(case, list(given))))
    want = [torch.stack(parts) for parts in zip(*(run(*example(xs, i)) for i in range(3)))]
    assert_alike(vmap(run)(*xs), want, case.name)

    def pulled(*given):
        outs, pull = vjp(lambda *ys: tuple(y for y in run(*ys) if y.is_floating_point()), *given)
        return pull(tuple(torch.ones_like(out) for out in outs))

    want = [torch.stack(parts) for parts in zip(*(pulled(*example(xs, i)) for i in range(3)))]
    assert_alike(vmap(pulled)(*xs), want, case.name)
    assert found <= LOOPS
