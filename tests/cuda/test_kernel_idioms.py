"""Kernels of other projects: what they do that ours do not, on the device."""

import numpy as np
import pytest

import tritorch
from tritorch import cuda

pytest.importorskip("triton")
from triton._C.libtriton import passes

from tests.cuda import idiom_kernels as kernels

pytestmark = pytest.mark.device
RNG = np.random.default_rng(0)


def gpu(x):
    return tritorch.tensor(x, device="cuda")


@pytest.mark.parametrize("n", [1, 70])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_numbers_are_scalars(n, dtype):
    x = gpu(RNG.standard_normal(n).astype(np.float32)).to(getattr(tritorch, dtype))
    expected = x.float() * 1.5 + 0.25
    kernels.scaled[(3,)](x, 3.0, 0.25, n, BLOCK=32)
    assert tritorch.allclose(x.float(), expected, atol=2e-2, rtol=1e-2)


def test_variables_of_loops_are_tensors():
    x = RNG.standard_normal((7, 50)).astype(np.float32)
    y = tritorch.zeros(7, device="cuda")
    kernels.row_sums[(7,)](gpu(x), y, 7, 50, BLOCK=16)
    np.testing.assert_allclose(y.cpu().numpy(), x.sum(1).cumsum(), rtol=1e-4, atol=1e-5)


def test_functions_of_libdevice():
    x = np.linspace(0.1, 3, 64, dtype=np.float32)
    y = tritorch.zeros((5, 64), device="cuda")
    kernels.functions[(1,)](gpu(x), y, BLOCK=64)
    t = tritorch.tensor(x)
    expected = [t.tanh(), t.rsqrt(), t.exp() + t.erf(), t.pow(t) - t.lgamma(), (t * 3).round()]
    assert tritorch.allclose(y.cpu(), tritorch.stack(expected), rtol=1e-5, atol=1e-6)


def test_programs_take_different_ways():
    x = np.arange(1, 41, dtype=np.int32)
    steps = tritorch.zeros(41, dtype=tritorch.int32, device="cuda")
    kernels.collatz[(64,)](gpu(x), steps, 40)

    def expected(n):
        count = large = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count, large = count + 1, large + (n > 100 and n % 3 == 1 and (n - 1) // 3 % 2 == 1)
        return count

    assert steps[:40].tolist() == [expected(int(n)) for n in x]
    assert steps[40].item() > 0


def test_programs_wait_for_a_lock():
    x = RNG.integers(0, 9, (20, 16)).astype(np.float32)
    total = tritorch.full((16,), 99.0, device="cuda")
    lock = tritorch.zeros(2, dtype=tritorch.int32, device="cuda")
    kernels.locked_sum[(20,)](gpu(x), total, lock, BLOCK=16)
    assert total.tolist() == x.sum(0).tolist() and lock.tolist() == [0, 1]


def test_combinations_of_several_values():
    x = RNG.integers(-9, 9, (8, 16)).astype(np.float32)
    y, best = tritorch.zeros((8, 16), device="cuda"), tritorch.zeros(8, device="cuda")
    kernels.combined[(2,)](gpu(x), y, best, ROWS=4, COLS=16)
    assert best.tolist() == (x.max(1) + x.argmax(1)).tolist()
    turned = x.reshape(8, 8, 2)[..., ::-1].reshape(8, 16)
    running = np.zeros((8, 16), np.float32)
    for i in range(16):
        running[:, i] = (running[:, i - 1] * 0.5 if i else 0) + turned[:, i]
    np.testing.assert_allclose(y.cpu().numpy(), running, rtol=1e-5, atol=1e-6)


@pytest.mark.simulated
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_arithmetic_of_float8(dtype):
    kind = getattr(tritorch, dtype)
    x = gpu(RNG.standard_normal(64).astype(np.float32)).to(kind)
    y = tritorch.zeros(128, device="cuda").to(kind)
    kernels.eighths[(1,)](x, y, BLOCK=64)
    cuda.synchronize()
    wide = x.float()
    assert (y[:64].float() == (wide * 2).to(kind).float()).all()
    assert (y[64:].float() == (wide * 3).to(kind).float()).all()


@pytest.mark.simulated
@pytest.mark.parametrize("kernel", ["combined", "collatz"])
def test_programs_side_by_side_and_in_a_row_agree(kernel, monkeypatch):
    from tritorch.triton import interpret

    results = []
    for elements in (1 << 16, 1):
        monkeypatch.setattr(interpret, "ELEMENTS", elements)
        interpret._translations.clear()
        getattr(kernels, kernel).device_caches.clear()
        if kernel == "collatz":
            out = tritorch.zeros(41, dtype=tritorch.int32, device="cuda")
            kernels.collatz[(64,)](gpu(np.arange(1, 41, dtype=np.int32)), out, 40)
        else:
            out, best = tritorch.zeros((8, 16), device="cuda"), tritorch.zeros(8, device="cuda")
            x = gpu(np.arange(128, dtype=np.float32).reshape(8, 16) % 11)
            kernels.combined[(2,)](x, out, best, ROWS=4, COLS=16)
        results.append(out.tolist())
    assert results[0] == results[1]


@pytest.mark.simulated
def test_every_symbol_of_libdevice_is_computed():
    """Triton's list of them, and some values."""
    import inspect
    import re

    from triton.language.extra.cuda import libdevice as declared

    from tritorch.triton import libdevice

    symbols = set(re.findall(r"__nv_\w+", inspect.getsource(declared)))
    assert [name for name in symbols if libdevice.function(name) is None] == []
    one = np.float32
    values = {
        ("__nv_roundf", one(-2.5)): -3, ("__nv_sinpif", one(1.5)): -1,
        ("__nv_fadd_ru", one(1), one(1e-9)): np.nextafter(one(1), one(2)),
        ("__nv_fadd_rz", one(-1), one(1e-9)): -np.nextafter(one(1), one(0)),
        ("__nv_float2int_rd", one(-2.5)): -3, ("__nv_clz", np.int32(1)): 31,
        ("__nv_mulhi", np.int32(-1), np.int32(1)): -1, ("__nv_byte_perm", np.int32(0x12345678),
        np.int32(0), np.int32(0x0123)): 0x78563412, ("__nv_jnf", np.int32(2), one(1)): 0.1149034849,
    }  # fmt: skip
    for (name, *args), expected in values.items():
        function = libdevice.function(name)
        assert function is not None and np.isclose(function(*args), expected, rtol=1e-7), name


def test_functions_that_are_not_inlined():
    x, y = RNG.integers(1, 100, (2, 20)).astype(np.int32)
    out = tritorch.zeros(20, dtype=tritorch.int32, device="cuda")
    kernels.kept_apart[(20,)](gpu(x), gpu(y), out)
    i = np.arange(20)
    expected = np.where(i % 3 == 0, 0, np.gcd(x, y) + np.gcd(i, i + 6))
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.simulated
@pytest.mark.parametrize(
    "kind", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8"]
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_lanes_that_a_mask_leaves_out_are_no_zeros(kind, sign):
    """A kernel that reduces them gives none of the numbers that it looks right with."""
    x = (tritorch.arange(1, 6, device="cuda") * sign).to(getattr(tritorch, kind))
    y = tritorch.zeros(3, dtype=x.dtype, device="cuda")
    kernels.extremes_without_other[(1,)](x, y, 5, BLOCK=16)
    largest, least, total = y.tolist()
    assert largest not in (5, -1, 0) and least not in (1, -5, 0) and total not in (15, -15)


@pytest.mark.simulated
def test_bools_that_a_mask_leaves_out_are_true():
    x = tritorch.zeros(5, dtype=tritorch.bool, device="cuda")
    y = tritorch.zeros(1, dtype=tritorch.bool, device="cuda")
    kernels.any_without_other[(1,)](x, y, 5, BLOCK=16)
    assert y.item()


@pytest.mark.simulated
@pytest.mark.skipif(not hasattr(passes.ttir, "add_rewrite_tensor_pointer"), reason="no such blocks")
def test_blocks_past_the_end_without_padding_are_no_zeros():
    x = tritorch.ones(5, device="cuda")
    y = tritorch.zeros(1, device="cuda")
    kernels.block_without_padding[(1,)](x, y, 5, BLOCK=16)
    assert y.isnan().all()
