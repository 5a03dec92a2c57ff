"""Pointwise operators on the GPU against the CPU's, which are NumPy."""

import numpy as np
import pytest

pytest.importorskip("triton")

import tritorch as torch
from tests.ops.gpu_reference import FLOATS, TOLERANCE, on_device
from tritorch.core.dtype import from_numpy_dtype
from tritorch.core.promotion import category
from tritorch.ops.record.apply import apply
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise

pytestmark = pytest.mark.device

RECORDS = {name: op for name, op in OPERATORS.items() if isinstance(op, Pointwise)}
INTS = [np.bool_, np.uint8, np.int8, np.int32, np.int64]
COMPLEX = [np.complex64, np.complex128]
SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 7, 0.3, 1e-3, -1e-3, 20, -20,
           np.inf, -np.inf, np.nan]  # fmt: skip
WHOLE = [0, 1, 2, 3, 5, 7, 100, 127, -1, -2, -3, -7, -100, -127]
# Zero divisors, and shifts by more than a number has bits, are undefined for integers.
POSITIVE_SECOND = {"floor_divide", "floor_quotient", "trunc_divide", "remainder", "fmod"}
SMALL_SECOND = {"bitwise_left_shift", "bitwise_right_shift", "pow"}

EITHER_ZERO = {"clamp", "clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin", "relu"}
NOT_OF_BOOLS = {"addcmul", "lerp", "sign"}  # what PyTorch refuses, or the CPU


def values(kind, name):
    kind = np.dtype(kind)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.array([v for v in WHOLE if info.min <= v <= info.max], kind)
    if kind.kind == "c":
        grid = np.array([0, 1, -1, 0.5, -2, 3])
        return (grid[:, None] + 1j * grid[None, :]).reshape(-1).astype(kind)
    low, high = RECORDS[name].domain
    inside = np.random.default_rng(0).uniform(low, high, 20)
    with np.errstate(over="ignore"):
        out = np.concatenate([SPECIAL, inside]).astype(kind)
    return out[~np.isnan(out)] if name == "sign" else out  # NumPy's sign of NaN is not PyTorch's


def operands(name, kind):
    """Every pair (or a part of all triples) of special values."""
    op = RECORDS[name]
    one = values(kind, name)
    n = len(op.inputs)
    if n == 1:
        return (one,)
    a, b = (x.reshape(-1) for x in np.meshgrid(one, one))
    if np.dtype(kind).kind in "iu":
        if name in POSITIVE_SECOND:
            b = np.where(b == 0, b.dtype.type(3), b)
        elif name in SMALL_SECOND:
            b = np.abs(b.astype(np.int64) % 7).astype(b.dtype)
    if n == 2:
        return a, b
    rng = np.random.default_rng(1)
    rest = tuple(one[rng.integers(0, len(one), a.size)] for _ in range(n - 2))
    out = (a, b, *rest)
    return (out[0] != 0, *out[1:]) if op.masks else out


def run(name, arguments):
    """(got, wanted), computed as the operator would."""
    op = RECORDS[name]
    common = from_numpy_dtype(arguments[-1].dtype)
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    with np.errstate(all="ignore"):
        want = op.compute(arguments, compute, result)
    got = op.compute([on_device(a) for a in arguments], compute, result)
    return got.numpy(), want


def loose(name, kind):
    """Functions whose rounding grows with the argument, and NumPy's own in float32."""
    allowed = TOLERANCE.get(np.dtype(kind).name, 1e-10)
    return allowed * {"erfinv": 20, "lgamma": 5, "digamma": 5}.get(name, 1)


def check(name, kind, got, want, arguments):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "biu":
        wrong = got != want
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        allowed = loose(name, want.dtype)
        wrong = ~np.isclose(got.astype(wide), want.astype(wide), allowed, allowed, equal_nan=True)
        if want.dtype.kind == "f" and name not in EITHER_ZERO and "polynomial" not in name:
            wrong |= (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
    if wrong.any():
        at = np.flatnonzero(wrong)[:8]
        rows = [(*(a[i] for a in arguments), "got", got[i], "not", want[i]) for i in at]
        raise AssertionError(f"{name} of {np.dtype(kind)}: {wrong.sum()} wrong\n" +
                             "\n".join(map(str, rows)))  # fmt: skip


def kinds_of(name):
    without = RECORDS[name].without | ({0} if name in NOT_OF_BOOLS else set())
    for kind in [*FLOATS, *INTS, *COMPLEX]:
        if RECORDS[name].without_half and np.dtype(kind).itemsize == 2 and kind in FLOATS:
            continue
        if category(from_numpy_dtype(np.dtype(kind))) not in without:
            yield kind


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_against_the_cpu(name):
    for kind in kinds_of(name):
        arguments = operands(name, kind)
        got, want = run(name, arguments)
        check(name, kind, got, want, arguments)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_an_output_is_written_at_once(name, device):
    """On the GPU nothing is allocated beside it; and it may be one of the operands."""
    op = RECORDS[name]
    kinds = (np.float32,) if device == "cuda" else (np.float32, np.int32)
    for kind in set(kinds) & set(kinds_of(name)):
        inputs = [torch.tensor(a).to(device) for a in operands(name, kind)]
        with np.errstate(all="ignore"):
            want = apply(op, inputs)
            out = torch.empty_like(want)
            before = allocations()
            apply(op, inputs, out)
            assert allocations() == before
            torch.testing.assert_close(out, want, rtol=0, atol=0, equal_nan=True)
            if want.dtype is inputs[-1].dtype:
                apply(op, inputs, inputs[-1])
                torch.testing.assert_close(inputs[-1], want, rtol=0, atol=0, equal_nan=True)


def allocations():
    """How many pieces of memory GPUs have given so far."""
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)


@pytest.mark.parametrize("kind", [np.int8, np.float16])
def test_many_narrow_elements(kind, monkeypatch):
    """Larger programs, where one narrow operand is read, compute the same."""
    from tritorch.gpu.pointwise import pointwise

    monkeypatch.setattr(pointwise, "_MANY", 5000)
    x = torch.arange(-3000, 3000).to(from_numpy_dtype(np.dtype(kind)))
    for function in (torch.neg, lambda x: x * 3, lambda x: 2 - x):
        assert torch.equal(function(x.cuda()).cpu(), function(x))
