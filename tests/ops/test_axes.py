"""What records say of their axes and costs, on every call that the operator table makes."""

from __future__ import annotations

import numpy as np
import pytest
from table import CASES
from test_infer import MORE, gradients
from test_schema import UNKNOWN
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.symbolic import ShapeEnv
from tritorch.ops.record.operator import OPERATORS, Operator

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),  # beta, it says
    pytest.mark.usefixtures("alone"),
]

# Records that say nothing of their axes, and why.
SILENT = {
    # sizes or places depend on values
    "nonzero", "masked_select", "masked_scatter", "unique", "unique_consecutive", "bincount",
    "histc", "index", "index_put", "take", "put",
    # axes are cut or folded: a number of them, or of batches, in one
    "cat", "stack", "repeat", "recurrent", "recurrent_backward", "ctc_loss", "ctc_loss_backward",
    "varlen_attention", "varlen_attention_backward", "embedding_bag_backward", "roll_flat",
    "grid_sampler", "grid_sampler_backward", "batch_norm_add_relu_backward",
    # noted in compiled programs alone
    "tensor", "flat_offsets", "choices", "rrelu_slopes", "kept_labels",
    # the gradient of a view of a part
    "select_backward", "slice_backward", "basic_index_backward", "diagonal_backward",
    # of vmap's own
    "to_batched", "from_batched",
    # drawn: nothing depends on anything
    "standard_gamma_drawn", "dirichlet_drawn", "poisson_drawn", "binomial_drawn", "drawn_by",
}  # fmt: skip


def described(x):
    if not isinstance(x, torch.Tensor):
        return x
    return MetaArray(x.shape, x.dtype, x.stride())


def calls_of_the_table(monkeypatch):
    """(record, inputs, params) of every call by `Operator.call`."""
    found, run = [], Operator.call

    def watched(op, tensors, params=()):
        found.append((op, list(tensors), params))
        return run(op, tensors, params)

    monkeypatch.setattr(Operator, "call", watched)
    for case in CASES + MORE:
        if case.name not in UNKNOWN:
            xs = leaves(case)
            gradients(outputs(call(case, xs)), xs)
    monkeypatch.undo()
    return found


def run_again(op, tensors, params):
    with torch.no_grad():
        return outputs(op.call(tensors, params))


def moved(op, tensors, params, axes, before):
    """What changes where it must not, when one place along a mapped axis of an input changes."""
    for i, letters in enumerate(axes.inputs):
        x = tensors[i]
        if not letters or x is None or not x.dtype.is_floating_point:
            continue
        for dim, letter in enumerate(letters):
            if axes.roles.get(letter) != "mapped" or x.shape[dim] < 2 or letters.count(letter) > 1:
                continue
            changed = x.detach().clone()
            changed.select(dim, 0).mul_(1.01).add_(0.01)
            after = run_again(op, [*tensors[:i], changed, *tensors[i + 1 :]], params)
            for k, (a, b) in enumerate(zip(before, after)):
                if a is None or axes.outputs[k] is None or letter not in axes.outputs[k]:
                    continue
                at = axes.outputs[k].index(letter)
                rest = [v.detach().narrow(at, 1, v.shape[at] - 1).numpy() for v in (a, b)]
                if not np.allclose(*rest, rtol=1e-12, atol=1e-12, equal_nan=True):
                    return f"input {i}, dim {dim} ({letter}) of {axes}"
    return ""


def sizes_differ(axes, specs, outs):
    sizes = {}
    for letters, x in [*zip(axes.inputs, specs), *zip(axes.outputs, outs)]:
        if not letters:
            continue
        if len(letters) != len(x.shape):
            return f"{letters} for {x.shape}"
        for letter, n in zip(letters, x.shape):
            role = axes.roles.get(letter)
            if letter and role in ("mapped", "contracted", "new"):
                if sizes.setdefault(letter, n) != n:
                    return f"{letter} is {sizes[letter]} and {n}: {axes}"
    return ""


def test_axes_are_those_of_a_run(monkeypatch, without_plans):
    wrong, seen, silent = {}, set(), set()
    for op, tensors, params in calls_of_the_table(monkeypatch):
        if (
            op.variadic
            or op.name in UNKNOWN
            or not any(isinstance(x, torch.Tensor) for x in tensors)
        ):
            silent.add(op.name)
            continue
        specs = [described(x) for x in tensors]
        axes = op.axes(specs, params)
        if axes is None:
            silent.add(op.name)
            continue
        seen.add(op.name)
        before = run_again(op, tensors, params)
        outs = [None if x is None else described(x) for x in before]
        problem = sizes_differ(axes, specs, outs)
        if not problem and op.kind != "in_place":
            problem = moved(op, tensors, params, axes, before)
        if problem:
            wrong[op.name] = problem
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    assert silent <= SILENT, silent - SILENT
    structured = {
        name for name, op in OPERATORS.items()
        if op.kind in ("structured", "internal", "in_place") and op.rules.axes is None
        and not (op.runs_composed and op.layout == "elementwise")
    }  # fmt: skip
    assert structured == SILENT


FLOAT = torch.float32


def meta(*shape, kind=FLOAT):
    return MetaArray(shape, kind)


def cost(name, inputs, params=()):
    return OPERATORS[name].cost(inputs, params)


POOLED = ((2, 2), (2, 2), (0, 0), (1, 1), False)
STRIDES = ((2, 2), (1, 1), (1, 1), False, (0, 0), 2)  # of a convolution of two groups
# What a call takes, by hand; products, convolutions and attention as torch.utils.flop_counter says.
KNOWN = {
    "mm": (lambda: cost("mm", (meta(3, 4), meta(4, 5))), 2 * 3 * 4 * 5, 4 * (12 + 20 + 15)),
    "addmm": (
        lambda: cost("addmm", (meta(5), meta(3, 4), meta(4, 5)), (1, 1)),
        2 * 3 * 4 * 5,
        4 * (5 + 12 + 20 + 15),
    ),
    "bmm": (
        lambda: cost("bmm", (meta(7, 3, 4), meta(7, 4, 5))),
        2 * 7 * 3 * 4 * 5,
        4 * 7 * (12 + 20 + 15),
    ),
    "linear": (
        lambda: cost("linear", (meta(2, 3, 4), meta(5, 4), meta(5))),
        2 * 6 * 4 * 5,
        4 * (24 + 20 + 5 + 30),
    ),
    "convolution": (
        lambda: cost("convolution", (meta(2, 4, 8, 8), meta(6, 2, 3, 3), None), STRIDES),
        2 * (2 * 6 * 4 * 4) * (2 * 9),
        4 * (512 + 108 + 192),
    ),
    "convolution_weight": (
        lambda: cost(
            "convolution_weight", (meta(2, 6, 4, 4), meta(2, 4, 8, 8)), ((6, 2, 3, 3), *STRIDES)
        ),
        2 * (2 * 6 * 4 * 4) * (2 * 9),
        4 * (512 + 108 + 192),
    ),
    "convolution_input": (
        lambda: cost(
            "convolution_input", (meta(2, 6, 4, 4), meta(6, 2, 3, 3)), ((2, 4, 8, 8), *STRIDES)
        ),
        2 * (2 * 6 * 4 * 4) * (2 * 9),
        4 * (512 + 108 + 192),
    ),
    "attention": (
        lambda: cost(
            "scaled_dot_product_attention",
            (meta(2, 3, 5, 8), meta(2, 3, 7, 8), meta(2, 3, 7, 8), None),
            (False, 0.5, None),
        ),
        2 * 2 * (2 * 3) * 5 * 7 * 8,
        4 * 6 * (40 + 56 + 56 + 40 + 5),
    ),
    "attention_backward": (
        lambda: cost(
            "attention_backward",
            (meta(6, 5, 8), meta(6, 5, 8), meta(6, 7, 8), meta(6, 7, 8), None, meta(6, 5, 8),
             meta(6, 5)),
            (False, 0.5, None),
        ),
        5 * 2 * 6 * 5 * 7 * 8,
        4 * 6 * (3 * 40 + 2 * 56 + 5 + 40 + 56 + 56),
    ),
    "softmax": (lambda: cost("softmax", (meta(3, 10),), (1, FLOAT)), 5 * 30, 4 * 60),
    "sum": (lambda: cost("sum", (meta(3, 10),), ((0,), False, FLOAT)), 30, 4 * 40),
    "cumsum": (lambda: cost("cumsum", (meta(3, 10),), (1, FLOAT)), 30, 4 * 60),
    "add": (lambda: cost("add", (meta(3, 10), meta(10))), 30, 4 * (30 + 10 + 30)),
    "embedding": (
        lambda: cost("embedding", (meta(1000, 16), meta(4, kind=torch.int64)), (-1, False)),
        0,
        4 * 64 + 8 * 4 + 4 * 64,
    ),
    "max_pool": (
        lambda: cost("max_pool", (meta(1, 1, 4, 4),), POOLED), 4 * 4, 4 * 16 + 4 * 4 + 8 * 4
    ),
    "transpose": (lambda: cost("transpose", (meta(3, 4),), (0, 1)), 0, 0),
    "fft": (
        lambda: cost("fft_c2c", (meta(3, 16, kind=torch.complex64),), ((1,), 0, True)),
        5 * 48 * 4,
        8 * 96,
    ),
    "cholesky": (
        lambda: cost("linalg_cholesky_ex", (meta(2, 6, 6),), (False,)), 2 * 216 // 3, 4 * 146
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_costs_that_are_known(name):
    asked, flops, moved_bytes = KNOWN[name]
    assert asked() == (flops, moved_bytes)


def test_a_definition_counts_what_it_calls():
    # Two means, a square, sums: some operations for each element, and no product.
    flops, moved_bytes = cost("layer_norm", (meta(8, 32), meta(32), meta(32)), (1, 1e-5))
    assert 5 * 256 <= flops <= 12 * 256
    assert moved_bytes == 4 * (256 + 64 + 256 + 16)
    # One product for each step, and the cell's own.
    gates, h, c, w, b = meta(6, 16), meta(2, 4), meta(2, 4), meta(16, 4), meta(16)
    flops = cost("recurrent", (gates, h, c, w, b), ("lstm", (2, 2, 2), False)).flops
    assert flops >= 3 * 2 * 2 * 16 * 4


def test_costs_of_sizes_that_are_left_open():
    env = ShapeEnv()
    n = env.symbol("n", 6)
    a, b = MetaArray((n, 4), FLOAT), MetaArray((4, n), FLOAT)
    flops, moved_bytes = cost("mm", (a, b))
    assert (int(flops), int(moved_bytes)) == (2 * 6 * 4 * 6, 4 * (24 + 24 + 36))
    assert str(flops) == "8*n**2"


def test_every_call_has_a_cost(monkeypatch, without_plans):
    for op, tensors, params in calls_of_the_table(monkeypatch):
        if op.name in UNKNOWN:
            continue
        specs = [described(x) for x in tensors]
        flops, moved_bytes = op.cost(specs, params)
        assert flops >= 0
        assert moved_bytes >= 0
