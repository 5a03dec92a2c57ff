"""Every case of the table: against NumPy, by finite differences (twice), on both devices."""

from __future__ import annotations

import numpy as np
import pytest
from table import CASES, Case, refuses
from test_by_host import ON_HOST

import tritorch as torch
from tritorch.autograd import gradcheck, gradgradcheck
from tritorch.gpu import by_host
from tritorch.ops.record.apply import apply
from tritorch.ops.record.operator import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")  # beta, it says

# Records whose gradient other tests reach (random, in place, internal to vmap).
ELSEWHERE = {
    "copy", "fill", "dropout", "identity", "nextafter", "sgn",
    "logaddexp", "clamp", "special_i1", "digamma", "linalg_cofactor",
    "lobpcg", "standard_gamma", "dirichlet", "poisson",
}  # fmt: skip


def call(case: Case, tensors: list, device: str = "cpu"):
    constants = [torch.tensor(value, device=device) for value in case.constants]
    return case.function(*tensors, *constants)


def leaves(case: Case, dtype=np.float64, device: str = "cpu", seed: int = 0):
    return [
        torch.tensor(value, device=device, requires_grad=True) for value in case.inputs(seed, dtype)
    ]


def outputs(result) -> list:
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("case", [c for c in CASES if c.reference], ids=str)
def test_numpy_agrees(case):
    values = case.inputs()
    got = call(case, [torch.tensor(v) for v in values])
    want = case.reference(*values, *case.constants)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)


# One backward pass for each element: whether two agree is no question of the operator.
ONCE = {"nondet_tol": float("inf"), "check_undefined_grad": False}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradcheck(case):
    assert gradcheck(lambda *xs: call(case, list(xs)), leaves(case), **ONCE)


@pytest.mark.parametrize("case", [c for c in CASES if c.second], ids=str)
def test_gradgradcheck(case):
    assert gradgradcheck(lambda *xs: call(case, list(xs)), leaves(case), atol=1e-4, **ONCE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_mode(case):
    xs = leaves(case)
    for i, x in enumerate(xs):
        seed = torch.tensor(np.random.default_rng(7).standard_normal(tuple(x.shape)))
        with torch.autograd.forward_ad.dual_level():
            duals = [
                torch.autograd.forward_ad.make_dual(y.detach(), seed) if y is x else y.detach()
                for y in xs
            ]
            outs = outputs(call(case, duals))
            moved = [torch.autograd.forward_ad.unpack_dual(out).tangent for out in outs]
        # <v, J t> = <J^T v, t>
        fresh = [y.detach().requires_grad_(True) for y in xs]
        for out, tangent in zip(outputs(call(case, fresh)), moved):
            if not out.is_floating_point() or not out.requires_grad:
                continue
            v = torch.tensor(np.random.default_rng(8).standard_normal(tuple(out.shape)))
            (pulled,) = torch.autograd.grad(out, fresh[i], v, retain_graph=True, allow_unused=True)
            left = 0.0 if tangent is None else float((v * tangent).sum())
            right = 0.0 if pulled is None else float((pulled * seed).sum())
            assert left == pytest.approx(right, rel=1e-6, abs=1e-8)


@pytest.mark.device
@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_devices_agree(case):
    by_host.via_host.clear()
    results = []
    for device in ("cpu", "cuda"):
        kind = np.float64 if case.name == "view dtype" else np.float32
        xs = leaves(case, kind, device)
        outs = [out for out in outputs(call(case, xs, device)) if out.requires_grad]
        total = sum((out * out).sum() for out in outs) if outs else None
        if total is None:
            return
        grads = torch.autograd.grad(total, xs, allow_unused=True)
        results.append(
            [t.detach().cpu().numpy() for t in (*outs, *(g for g in grads if g is not None))]
        )
    for cpu, gpu in zip(*results):
        np.testing.assert_allclose(gpu, cpu, rtol=2e-3, atol=case.tolerance)
    assert by_host.via_host <= set(ON_HOST)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_strides_do_not_matter(case):
    values = case.inputs()
    plain = outputs(call(case, [torch.tensor(v) for v in values]))
    spread = []
    for v in values:  # every other element of a wider array
        wide = np.zeros((*v.shape, 2))
        wide[..., 0] = v
        spread.append(torch.tensor(wide)[..., 0])
    if case.name in ("view", "view dtype", "as_strided", "complex pair"):
        return
    for a, b in zip(plain, outputs(call(case, spread))):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-14)


FUSED = [op for op in OPERATORS.values() if op.fused and op.kind != "pointwise"]


@pytest.mark.parametrize("op", FUSED, ids=lambda op: op.name)
def test_fused_operators_are_their_composed_definition(op, monkeypatch, without_plans):
    """Values and first gradients, of all cases that come to the operator."""
    calls, original = 0, op.call

    def counted(tensors, params=()):
        nonlocal calls
        calls += 1
        return original(tensors, params)

    def composed(tensors, params=()):
        found, first = original(tensors, params), op.composed(*tensors, *params)
        return (first, *found[1:]) if isinstance(found, tuple) else first

    def results(case, way):
        with monkeypatch.context() as patch:
            patch.setattr(op, "call", way)
            xs = leaves(case, seed=2)
            outs = [out for out in outputs(call(case, xs)) if out.requires_grad]
            return outs, torch.autograd.grad([(y * y).sum() for y in outs], xs) if outs else ()

    for case in CASES:
        before = calls
        fused = results(case, counted)
        if calls > before:
            small = results(case, composed)
            for a, b in zip((*fused[0], *fused[1]), (*small[0], *small[1]), strict=True):
                np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-9, atol=1e-11)
    assert calls


DEFINED = [op for op in OPERATORS.values() if op.composed and op.kind == "pointwise"]
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("op", DEFINED, ids=lambda op: op.name)
def test_pointwise_operators_are_their_definition(op):
    """Also at the edges of numbers, all of them with all others."""
    low, high = op.domain
    rng = np.random.default_rng(3)
    columns = [np.concatenate([rng.uniform(low, high, 5), EDGES]) for _ in op.inputs]
    if len(columns) > 2:  # not the thousands of combinations
        columns = [column[:5] for column in columns]
    grids = np.meshgrid(*columns, indexing="ij")
    inputs = [torch.tensor(grid) for grid in grids]
    if op.name == "gelu_backward_of":  # whose last input is gelu's result
        inputs[2] = torch.nn.functional.gelu(inputs[1])
    found, defined = apply(op, inputs, None), op.composed(*inputs)
    assert found.dtype is defined.dtype
    np.testing.assert_allclose(defined, found, rtol=1e-12, atol=1e-14)


def _direct(name, inputs, params):
    return name, [np.random.default_rng(5).uniform(-2, 2, shape) for shape in inputs], params


# Records that the table reaches by fast paths alone.
DIRECT = [
    _direct("softmax", [(3, 4)], (1, torch.float64)),
    _direct("log_softmax", [(3, 4)], (0, torch.float64)),
    _direct("linear", [(2, 3, 4), (5, 4), (5,)], ()),
    _direct("addmm", [(3, 5), (3, 4), (4, 5)], (0.5, 2.0)),
    _direct("addmm", [(5,), (3, 4), (4, 5)], (0, 1)),
    _direct("baddbmm", [(2, 3, 5), (2, 3, 4), (2, 4, 5)], (0.5, 2.0)),
    _direct("basic_index", [(4, 5, 3)], ((None, (1, None, 2), -2, None, (None, None, None)),)),
]


@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case[0])
def test_operators_with_gradients_are_their_definition(case):
    name, values, params = case
    op, inputs = OPERATORS[name], [torch.tensor(value) for value in values]
    np.testing.assert_allclose(op.composed(*inputs, *params), op.call(inputs, params), rtol=1e-12)


def test_an_embedding_is_its_definition():
    weight, indices = torch.rand(7, 3), torch.tensor([[1, 6], [0, 1]])
    op = OPERATORS["embedding"]
    found = op.call((weight, indices), (-1, False))
    assert op.composed(weight, indices, -1, False).equal(found)


def test_every_definition_is_held_to_its_operator():
    held = {op.name for op in (*FUSED, *DEFINED)} | {case[0] for case in DIRECT} | {"embedding"}
    defined = {op.name for op in OPERATORS.values() if op.composed and not op.runs_composed}
    assert defined - held == {"convolution_with_statistics"}  # tests/nn/test_fusion.py has it


def test_every_differentiable_record_is_in_the_table():
    reached = set()
    for case in CASES:
        xs = leaves(case)
        outs = [out for out in outputs(call(case, xs)) if out.grad_fn]
        if case.second and outs:
            seeds = [torch.ones_like(out) for out in outs]
            outs += torch.autograd.grad(outs, xs, seeds, create_graph=True, allow_unused=True)
        stack = [out.grad_fn for out in outs if out is not None and out.grad_fn]
        while stack:
            node = stack.pop()
            if hasattr(node, "_node_op"):
                reached.add(node._node_op.name)
                stack.extend(edge for edge, _ in node.next_functions if edge is not None)
    wanted = {
        name
        for name, op in OPERATORS.items()
        if op.differentiable
        # those of collectives: tests/distributed/test_records.py
        and op.kind not in ("internal", "sparse", "nested", "collective")
        and not (op.kind == "in_place" and "generator" in op.params)  # tests/ops/test_dispatch.py
        and not refuses(op)
    }
    assert wanted - reached - ELSEWHERE == set()
