"""Each native loop of the CPU and its NumPy twin give equal results (Note [NumPy defines])."""

import importlib
import math
import pkgutil
from dataclasses import dataclass

import numpy as np
import pytest

import tritorch
from tritorch import _C, host, nn
from tritorch.host import loops
from tritorch.host.chains import chained, program, rowwise
from tritorch.host.linalg import blas
from tritorch.host.nn import attention, conv, norm, pooling, upsample

for _module in pkgutil.walk_packages(host.__path__, f"{host.__name__}."):
    importlib.import_module(_module.name)  # declares its loops

FLOATS = ("f", "d")
# Units in the last place of results, times their size: sums of float32 round in other orders, and
# NumPy's functions of float32 are less exact than ours.
TOLERANCE = {"f": 3e-6, "d": 1e-13}


def _numbers(kind, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def _indices(top, *shape):
    return np.random.default_rng(1).integers(0, top, shape)


@dataclass
class Into:
    """An array that a call writes: a result."""

    array: np.ndarray


def _empty(kind, *shape):
    return Into(np.zeros(shape, kind))


# ---- loops whose twins have their arguments ------------------------------------------------------


def _unary(low, high, kinds=FLOATS):
    return [(np.random.default_rng(0).uniform(low, high, 1000).astype(kind),) for kind in kinds]


def _rows_forward(kind, sizes, has_mean):
    rows, groups, channels, plane = sizes
    weights = [_numbers(kind, groups * channels, seed=i) for i in (1, 2)]
    mean = _empty(kind, rows) if has_mean else None
    x = _numbers(kind, rows, channels * plane)
    return (x, *weights, _empty(kind, *x.shape), mean, _empty(kind, rows), kind, sizes, 1e-5)


def _rows_backward(kind, sizes, has_mean):
    rows, groups, channels, plane = sizes
    g, x = (_numbers(kind, rows, channels * plane, seed=i) for i in (3, 4))
    weight = _numbers(kind, groups * channels, seed=5)
    mean = x.mean(1) if has_mean else None
    rstd = 1 / np.sqrt(np.square(x if mean is None else x - mean[:, None]).mean(1) + 1e-5)
    sums = rows * channels if groups * plane > 1 else channels
    made = (_empty(kind, *x.shape), _empty(kind, sums), _empty(kind, sums))
    return (g, x, weight, mean, rstd.astype(kind), *made, kind, sizes)


ROWS = [((6, 1, 40, 1), True), ((6, 1, 40, 1), False), ((6, 3, 4, 10), True)]
CASES = {
    "exp": _unary(-20, 20), "expm1": _unary(-3, 20), "log": _unary(1e-6, 100),
    "log1p": _unary(-0.9, 50), "tanh": _unary(-9, 9), "sigmoid": _unary(-30, 30, "f"),
    "normal": _unary(-4, 6, "f"), "erf": _unary(-4, 4, "f"), "erf64": _unary(-4, 4, "d"),
    "erfc64": _unary(-4, 5, "d"), "lgamma64": _unary(0.1, 100, "d"),
    "erfinv": [*_unary(-0.999, 0.999), (np.array([0, 1, -1, 2, np.nan]),)],
    "sum_dims": [
        (_numbers(kind, 7, 40, 9), first, count, keep)
        for kind in FLOATS
        for first, count, keep in ((0, 3, False), (1, 1, True), (2, 1, False), (0, 1, False))
    ] + [(_numbers("d", 4, 4).T, 0, 1, False), (_indices(4, 3), 0, 1, False)],
    "fold_columns": [
        (1 + _numbers(kind, 3, 20, 50) / 8, _empty(kind, 3, 50), kind, name, 3, 20, 50)
        for kind in FLOATS
        for name in ("add", "multiply", "maximum", "minimum", "hypot")
    ],
    "running_sums": [
        (_numbers(kind, *shape), _empty(kind, *shape), *shape, kind)
        for kind in FLOATS for shape in ((3, 50, 1), (3, 20, 30))
    ],
    "running_products": [
        (1 + _numbers(kind, *shape) / 8, _empty(kind, *shape), *shape, kind)
        for kind in FLOATS for shape in ((3, 50, 1), (3, 20, 30))
    ],
    "add_scaled": [
        (Into(_numbers(kind, 500)), _numbers(kind, 500, seed=1), 0.3, kind) for kind in FLOATS
    ],
    "all_inside": [(_indices(9, 5, 4), 9), (_indices(9, 50), 5), (np.array([-1, 2]), 9),
                   (_indices(9, 0), 3)],
    "gather": [
        (_numbers(kind, 3, 9, 4), _indices(top, 3, 6, 4), _empty(kind, 3, 6, 4), 3, 9, 4, 6,
         np.dtype(kind).itemsize)
        for kind in ("f", "d", "e", "F", "D") for top in (9, 12)
    ],
    "scatter_add": [
        (Into(_numbers(kind, 3, 9, 4)), _indices(9, 3, 6, 4), _numbers(kind, 3, 6, 4, seed=1),
         3, 9, 4, 6, kind)
        for kind in ("f", "d", "i", "l")
    ],
    "first_of_rows": [
        (np.round(_numbers(kind, 5, 30) * 3), _empty(kind, 5, 4), _empty("l", 5, 4), 5, 30, 4,
         largest, kind)
        for kind in FLOATS for largest in (True, False)
    ] + [(np.array([[1, np.nan, 3, np.nan]]), _empty("d", 1, 3), _empty("l", 1, 3), 1, 4, 3,
          largest, "d") for largest in (True, False)],
    "normalise_rows": [_rows_forward(kind, *case) for kind in FLOATS for case in ROWS],
    "normalise_rows_backward": [_rows_backward(kind, *case) for kind in FLOATS for case in ROWS],
}  # fmt: skip


def _close(ours, twins, tolerance=TOLERANCE):
    ours, twins = np.asarray(ours), np.asarray(twins)
    assert ours.dtype == twins.dtype and ours.shape == twins.shape
    if ours.dtype.kind not in "fc":
        np.testing.assert_array_equal(ours, twins)
        return
    off = tolerance.get(ours.dtype.char, 0)
    np.testing.assert_allclose(ours, twins, rtol=off, atol=off * max(1, _size(twins)))


def _size(x):
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


def _results(function, case):
    given = [x.array.copy() if isinstance(x, Into) else x for x in case]
    found = function(*given)
    return found, [x for x, made in zip(given, case) if isinstance(made, Into)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_loop_is_its_twin(name):
    pair = loops.LOOPS[name]
    for case in CASES[name]:
        (ours, ours_written), (twins, twins_written) = (
            _results(function, case) for function in (pair.native, pair.twin)
        )
        if isinstance(ours, np.ndarray):
            _close(ours, twins)
        else:
            assert ours == twins
        if ours is not False:  # then nothing that was written counts
            for a, b in zip(ours_written, twins_written, strict=True):
                _close(a, b)


# ---- loops in front of NumPy code ----------------------------------------------------------------


def _products(kind):
    a, b, v = _numbers(kind, 40, 30), _numbers(kind, 30, 50, seed=1), _numbers(kind, 30, seed=2)
    return [blas.matmul(a, b), blas.dot(a, b), blas.dot(a, v), np.asarray(blas.inner(v, v), kind)]


def _attention(kind):
    q, k, v, g = (_numbers(kind, 2, 3, 20, 8, seed=i) for i in range(4))
    out, lse = attention.attention(q, k, v, None, True, 0.3)
    back = attention.attention_backward(g, q, k, v, None, out, lse, True, 0.3)
    return [out, lse, *back]


def _conv(kind):
    x, w = _numbers(kind, 2, 4, 9, 8), _numbers(kind, 6, 2, 3, 3, seed=1)
    how = ((2, 1), (1, 1), (1, 1), False, (0, 0), 2)
    out = conv.convolution(x, w, None, *how)
    g = _numbers(kind, *out.shape, seed=2)
    return [out, conv.convolution_input(g, x.shape, w, *how),
            conv.convolution_weight(g, x, w.shape, *how)]  # fmt: skip


def _pools(kind):
    x = _numbers(kind, 2, 3, 9, 8)
    sides = ((3, 2), (2, 2), (1, 1))
    return list(pooling.max_pool(x, *sides, (1, 1), True))


def _averages(kind):
    x = _numbers(kind, 2, 3, 9, 8)
    return [
        pooling.avg_pool(x, (3, 2), (2, 3), (0, 0), False, True, None),
        pooling.avg_pool(x[:, :, 0], (3,), (2,), (0,), False, True, 7),
    ]


def _planes(kind):
    x = _numbers(kind, 2, 3, 5, 6)
    return [upsample.linear(x, (8, 7), (None, None), align) for align in (True, False)]


def _norms(kind):
    x, g = (_numbers(kind, 8, 4, 40, 40, seed=i) for i in (0, 1))
    w, b = (_numbers(kind, 4, seed=i) for i in (2, 3))
    out, mean, rstd, var = norm.batch_norm(x, w, b, None, None, True, 1e-5)
    return [out, mean, rstd, var, *norm.batch_norm_backward(g, x, w, mean, rstd, True)]


def _declining(monkeypatch, *names):
    for name in names:
        monkeypatch.setattr(loops, name, loops.LOOPS[name].twin)


BESIDE = {
    ("multiply", "dot"): (_products, lambda m: _declining(m, "multiply", "dot")),
    ("attend", "attend_backward"): (
        _attention, lambda m: _declining(m, "attend", "attend_backward"),
    ),
    ("convolve", "convolve_weight"): (
        _conv, lambda m: m.setattr(conv, "_is_native", lambda *x: False),
    ),
    ("pool_largest",): (
        _pools, lambda m: m.setattr(pooling, "_is_native", lambda *x: False),
    ),
    ("pool_average",): (
        _averages, lambda m: m.setattr(pooling, "_is_averaged", lambda *x: False),
    ),
    ("interpolate_planes",): (
        _planes, lambda m: m.setattr(upsample, "_is_native", lambda *x: False),
    ),
    ("normalise", "normalise_backward"): (
        _norms, lambda m: m.setattr(norm, "_is_native", lambda *x: False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("names", BESIDE, ids=lambda names: names[0])
def test_a_loop_is_the_code_after_it(names, kind, monkeypatch):
    run, decline = BESIDE[names]
    ours = run(kind)
    decline(monkeypatch)
    for a, b in zip(ours, run(kind), strict=True):
        _close(a, b, {"f": 2e-5, "d": 1e-12})


# ---- chains --------------------------------------------------------------------------------------


def _softmax(x, c):
    y = loops.exp(x - rowwise.largest(x)) * c
    return y, rowwise.total(y)


def _rowwise(monkeypatch):
    run = loops.LOOPS["rowwise"]
    x, c = _numbers("f", 30, 40), _numbers("f", 30, 1, seed=1)
    made = [[np.zeros((30, 40), "f"), np.zeros((30, 1), "f")] for _ in range(2)]
    run.native(_softmax, "ac")(x, c, *made[0])
    run.twin(_softmax, "ac")(x, c, *made[1])
    return made


def _write(monkeypatch):
    pair, x = loops.LOOPS["write"], _numbers("f", rowwise.LARGE)
    formula, out = lambda a, s: a * s + a, np.empty(rowwise.LARGE, "f")
    assert pair.native(formula, out, x, 0.5) and not pair.twin(formula, out, x, 0.5)
    return [out], [formula(x, np.float32(0.5))]


def _table(monkeypatch):
    formula = lambda x, y: np.exp(x) * y
    x, y = _numbers("d", 2000), _numbers("d", 2000, seed=1)
    found = chained.Chained(formula)(x, y)
    monkeypatch.setattr(chained.Chained, "missing", loops.LOOPS["ChainTable"].twin)
    assert chained.Chained(formula)(x, y) is None
    return [found], [formula(x, y)]


def _optimizer(monkeypatch):
    made = []
    for each in (loops.LOOPS["an optimizer's chain"].native, program._Lines):
        monkeypatch.setattr(program, "_chain", each)
        program_cache = importlib.import_module("tritorch.host.optim")._program
        program_cache.cache_clear()
        tritorch.manual_seed(0)
        model = nn.Linear(5, 3)
        step = tritorch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1, foreach=True)
        for _ in range(3):
            step.zero_grad()
            model(tritorch.ones(2, 5)).square().sum().backward()
            step.step()
        program_cache.cache_clear()
        made.append([p.detach().numpy() for p in model.parameters()])
    return made


CHAINS = {
    "rowwise": _rowwise, "write": _write, "ChainTable": _table, "an optimizer's chain": _optimizer,
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_the_function_that_it_was_traced_from(name, monkeypatch):
    for a, b in zip(*CHAINS[name](monkeypatch), strict=True):
        _close(a, b)


# ---- all of them ---------------------------------------------------------------------------------


def test_every_loop_is_compared():
    beside = {name for names in BESIDE for name in names}
    assert loops.LOOPS.keys() == {*CASES, *beside, *CHAINS}


def test_loops_are_called_by_their_declarations_alone():
    """No file of host/ calls a native loop past its twin."""
    from pathlib import Path

    native = {name for name in loops.LOOPS if hasattr(_C, name)}
    gated = {name for name, pair in loops.LOOPS.items() if pair.twin is None}
    for path in Path(host.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if path.name != "loops.py":
            assert [n for n in native - gated if f"_C.{n}(" in text] == [], path.name


@pytest.mark.native("the twins are what runs here")
def test_the_variable_puts_the_twins_in_the_loops_place():
    import os
    import subprocess
    import sys

    code = (
        "import tritorch; from tritorch.host import loops; from tritorch.host.nn import conv\n"
        "print(loops.gather.__wrapped__ is loops.LOOPS['gather'].twin, conv._is_native())"
    )
    for value, said in (("1", "True False"), ("on", "True False")):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "TRITORCH_NUMPY_ONLY": value},
        )  # fmt: skip
        assert run.stdout.strip() == said
    assert loops.gather.__wrapped__ is _C.gather and math.isfinite(float(loops.exp(1.0)))
