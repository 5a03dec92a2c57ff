"""Operators of torch.ops.quantized_decomposed: values against NumPy, checks, meta tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tritorch as torch
from tritorch.ao.quantization.fx import _decomposed

ops = torch.ops.quantized_decomposed
X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
SCALES = np.array([0.1, 0.2, 0.05, 0.3], dtype=np.float32)
ZEROS = np.array([0, 1, -2, 3])


def _quantized(x: np.ndarray, scale: np.ndarray | float, zero: np.ndarray | int) -> np.ndarray:
    inverse = np.float32(1) / np.asarray(scale, dtype=np.float32)
    return np.clip(np.rint(x * inverse) + zero, -128, 127).astype(np.int8)


def test_one_scale_forth_and_back() -> None:
    q = ops.quantize_per_tensor(torch.tensor(X), 0.1, 3, -128, 127, torch.int8)
    assert np.array_equal(q.numpy(), _quantized(X, 0.1, 3))
    x = ops.dequantize_per_tensor(q, 0.1, 3, -128, 127, torch.int8)
    assert np.abs(x.numpy() - X).max() <= 0.05 + 1e-6
    tensors = (torch.tensor([0.1]), torch.tensor([3]))
    assert torch.equal(
        ops.quantize_per_tensor.tensor(torch.tensor(X), *tensors, -128, 127, torch.int8), q
    )
    half = ops.dequantize_per_tensor(q, 0.1, 3, -128, 127, torch.int8, out_dtype=torch.float16)
    assert half.dtype == torch.float16


@pytest.mark.parametrize("axis", [0, -1])
def test_a_scale_for_each_channel(axis: int) -> None:
    x = X if axis == 0 else X.T.copy()
    shape = (-1, 1) if axis == 0 else (1, -1)
    args = (torch.tensor(SCALES), torch.tensor(ZEROS), axis, -128, 127, torch.int8)
    q = ops.quantize_per_channel(torch.tensor(x), *args)
    wanted = _quantized(x, SCALES.reshape(shape), ZEROS.reshape(shape))
    assert np.array_equal(q.numpy(), wanted)
    back = ops.dequantize_per_channel(q, *args).numpy()
    assert np.allclose(back, (wanted - ZEROS.reshape(shape)) * SCALES.reshape(shape))


def test_tokens_and_groups() -> None:
    x = torch.tensor(X)
    scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    assert scale.dtype == torch.float64 and zero.dtype == torch.int64
    q = ops.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
    back = ops.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)
    assert bool(((back - x).abs() <= scale * 0.51).all())
    scales, zeros = torch.full((4, 2), 0.1), torch.zeros(4, 2, dtype=torch.int32)
    q = ops.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 3)
    assert np.array_equal(q.numpy(), np.clip(_quantized(X, 0.1, 0), -8, 7))
    back = ops.dequantize_per_channel_group(q, scales, None, -8, 7, torch.int8, 3, torch.float32)
    assert torch.allclose(back, q * 0.1)


def test_gradients_of_fake_quantization_pass_inside_the_range() -> None:
    x = torch.tensor(X, requires_grad=True)
    args = (torch.tensor(SCALES), torch.tensor(ZEROS), 0, -8, 7)
    ops.fake_quant_per_channel(x, *args).sum().backward()
    steps = np.rint(X / SCALES[:, None]) + ZEROS[:, None]
    assert np.array_equal(x.grad.numpy(), ((steps >= -8) & (steps <= 7)).astype(np.float32))


def test_checks() -> None:
    x = torch.tensor(X)
    with pytest.raises(AssertionError, match="quant_min out of bounds"):
        ops.quantize_per_tensor(x, 0.1, 0, -129, 127, torch.int8)
    with pytest.raises(AssertionError, match="Expecting input to have dtype torch.float32"):
        ops.quantize_per_tensor(x.double(), 0.1, 0, -128, 127, torch.int8)
    with pytest.raises(AssertionError, match="scale tensor to be one element"):
        ops.quantize_per_tensor.tensor(x, torch.ones(2), torch.tensor(0), -128, 127, torch.int8)
    with pytest.raises(AssertionError, match="axis to be < 2"):
        ops.quantize_per_channel(x, x[0], x[0], 2, -128, 127, torch.int8)
    with pytest.raises(AssertionError, match="divisible by group_size"):
        ops.quantize_per_channel_group(x, x, x, -8, 7, torch.int8, 4)


def test_results_without_data() -> None:
    x = torch.tensor(X).to("meta")
    q = ops.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
    assert q.is_meta and q.dtype == torch.int8 and q.shape == x.shape
    scale, zero = ops.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    assert (scale.shape, scale.dtype, zero.dtype) == ((1,), torch.float64, torch.int64)
    assert set(_decomposed.SCHEMAS) <= set(vars(_decomposed))
