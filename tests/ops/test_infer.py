"""What records say of their results without data: what a run gives, on every case of the table."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from table import CASES, Case
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.symbolic import ShapeEnv
from tritorch.distributed import _functional_collectives as funcol
from tritorch.ops.record.operator import OPERATORS, Operator

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),  # beta, it says
    pytest.mark.usefixtures("alone"),
]


def _collectives(x):
    """All of them, in the group of one process that `alone` makes."""
    world = torch.distributed.group.WORLD
    x = funcol.broadcast(funcol.all_reduce(x, "sum", world), 0, world)
    x = funcol.reduce_scatter_single(funcol.all_gather_single(x, 0, world), "avg", 0, world)
    return funcol.all_to_all_single(x, [3], [3], world)


# Operators without a gradient, or which need more than tensors: the table does not have them.
MORE = [
    Case("all", lambda x: (x > 0).all(0), [(3, 4)]),
    Case("arg", lambda x: (x.argmax(1), x.argmin(), x.argmin(0, True)), [(3, 4)]),
    Case("geqrf", lambda x: torch.geqrf(x), [(4, 3)]),
    Case("hash", lambda x: torch.hash_tensor(x, 1), [(3, 4)]),
    Case("histc", lambda x: x.histc(5, -1, 1), [(7,)]),
    Case("eigenvalues", lambda x: (torch.linalg.eigvals(x), torch.linalg.eigvalsh(x)), [(3, 3)]),
    Case("int_mm", lambda x: torch._int_mm(*2 * [x.to(torch.int8)]), [(3, 3)]),
    Case("ldl", lambda x, b: _solved_by_ldl(x, b), [(3, 3), (3, 2)]),
    Case("searchsorted", lambda x, v: torch.searchsorted(x.sort().values, v), [(5,), (2, 3)]),
    Case("view", lambda x: x.view(4, 3), [(3, 4)]),
    Case("poisson", lambda x: torch.poisson(x.abs()), [(3, 4)]),
    Case("gamma", lambda x: torch._standard_gamma(x.abs() + 1), [(3, 4)]),
    Case("dirichlet", lambda x: torch._sample_dirichlet(x.abs() + 1), [(3, 4)]),
    Case("collectives", _collectives, [(3, 4)]),
]
# Records that no case calls by `Operator.call`: in place, inside of vmap, on a GPU alone, within
# other records' functions.
ELSEWHERE = {
    "to_batched", "from_batched", "view",
    "dropout_again", "grid_sampler_backward", "binomial_drawn", "identity",
    "scaled_product", "triangular_inverse", "lobpcg", "matmul_batches", "drawn_by",
    # noted in compiled programs alone
    "tensor", "flat_offsets", "choices", "rrelu_slopes", "kept_labels",
}  # fmt: skip
UNKNOWN = {"nonzero", "masked_select", "unique", "unique_consecutive", "bincount"}  # sizes


def _solved_by_ldl(x, b):
    factors, pivots = torch.linalg.ldl_factor(x + x.mT)
    return torch.linalg.ldl_solve(factors, pivots, b)


def described(x):
    return None if x is None else (tuple(x.shape), x.dtype, x.stride())


def told(array):
    return None if array is None else (array.shape, array.dtype, array.strides)


def without_data(x):
    return MetaArray(x.shape, x.dtype, x.stride())


def on_meta(x):
    made = torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
    return made.requires_grad_(x.requires_grad)


class Watch:
    """Compares what every call of a record gives with what its `infer` says."""

    def __init__(self, monkeypatch):
        self.seen = collections.Counter()
        self.wrong = []
        run = Operator.call

        def watched(op, tensors, params=()):
            plain = all(x is None or type(x._array) is np.ndarray for x in tensors)
            specs = [None if x is None else without_data(x) for x in tensors] if plain else None
            result = run(op, tensors, params)
            if specs is not None and op.name not in UNKNOWN:
                self.seen[op.name] += 1
                found = op.infer(specs, params)
                got = [told(each) for each in (found if isinstance(found, tuple) else (found,))]
                want = [described(each) for each in outputs(result)]
                if got != want:
                    self.wrong.append((op.name, specs, params, got, want))
            return result

        monkeypatch.setattr(Operator, "call", watched)
        infer = Operator.infer

        def asked(op, specs, params=()):
            self.seen[op.name] += 1
            return infer(op, specs, params)

        monkeypatch.setattr(Operator, "infer", asked)


def gradients(outs, xs):
    wanted = [out for out in outs if out.requires_grad]
    if not wanted:
        return []
    seeds = [torch.ones_like(out) for out in wanted]
    return list(torch.autograd.grad(wanted, xs, seeds, allow_unused=True))


def test_infer_says_what_a_run_gives(monkeypatch, without_plans):
    watch = Watch(monkeypatch)
    for case in CASES + MORE:
        xs = leaves(case)
        gradients(outputs(call(case, xs)), xs)
        spread = [x.detach().repeat_interleave(2, -1)[..., ::2] if x.ndim else x for x in xs]
        if case.name not in ("view", "view dtype", "as_strided", "complex pair"):
            call(case, spread)
        if case.name not in UNKNOWN:  # whose fast paths go by `call` are reached so
            metas = [on_meta(x) for x in xs]
            gradients(outputs(call(case, metas, "meta")), metas)
    assert not watch.wrong, "\n".join(map(str, watch.wrong[:20]))
    other = (
        "pointwise",
        "sparse",
        "nested",
        "factory",
        "random",
        "in_place",
    )  # test_dispatch.py, test_sparse, tests/nested
    structured = {name for name, op in OPERATORS.items() if op.kind not in other}
    assert structured - set(watch.seen) - UNKNOWN == ELSEWHERE


@pytest.mark.parametrize("case", CASES + MORE, ids=str)
def test_meta_tensors_are_like_those_of_a_run(case):
    xs = leaves(case)
    outs = outputs(call(case, xs))
    if case.name in UNKNOWN:
        with pytest.raises(NotImplementedError, match="depends on their values"):
            call(case, [on_meta(x) for x in xs], "meta")
        return
    want = [*map(described, outs), *map(described, gradients(outs, xs))]
    metas = [on_meta(x) for x in xs]
    found = outputs(call(case, metas, "meta"))
    got = [*map(described, found), *map(described, gradients(found, metas))]
    assert all(x.is_meta for x in found)
    assert got == want


def numbers(shape):
    return tuple(map(int, shape))


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in UNKNOWN], ids=str)
def test_sizes_that_are_left_open_are_those_of_a_run(case):
    xs = leaves(case)
    want = [described(x) for x in outputs(call(case, xs))]
    env, symbols = ShapeEnv(), {}

    def left_open(n):
        return symbols.setdefault(n, env.symbol(f"s{n}", n)) if n > 1 else n

    given = []
    for x in xs:
        shape = tuple(map(left_open, x.shape))
        given.append(_C.wrap(MetaArray(shape, x.dtype)))
    found = [described(x) for x in outputs(call(case, given, "meta"))]
    assert [(numbers(s), kind, numbers(steps)) for s, kind, steps in found] == want
