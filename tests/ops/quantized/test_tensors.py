"""Quantized tensors: views by channels, assignment, filling, copies, integers below 8 bits."""

from typing import Any

import pytest

import tritorch as torch

pytestmark = pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")


def by_channel(axis: int = 1, kind: Any = torch.quint8) -> Any:
    x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
    n = x.shape[axis]
    scales, zeros = torch.linspace(0.01, 0.02, n).double(), torch.arange(100, 100 + n)
    return torch.quantize_per_channel(x, scales, zeros, axis, kind)


def test_views_move_the_axis_of_the_channels() -> None:
    q = by_channel()
    assert q.unsqueeze(0).q_per_channel_axis() == 2 and q.unsqueeze(2).q_per_channel_axis() == 1
    assert q[0].q_per_channel_axis() == 0 and q.select(2, 1).q_per_channel_axis() == 1
    one = q[:, 1]
    assert one.qscheme() is torch.per_tensor_affine and one.q_zero_point() == 101
    assert one.dequantize().equal(q.dequantize()[:, 1])
    part = q[:, 1:]
    assert part.q_per_channel_zero_points().tolist() == [101, 102]
    assert part.dequantize().equal(q.dequantize()[:, 1:])
    assert q.unsqueeze(0).squeeze(0).q_per_channel_axis() == 1
    with pytest.raises(RuntimeError, match="Squeeze is only possible on non-axis"):
        by_channel(0)[:1].squeeze(0)
    with pytest.raises(RuntimeError, match="uniformly quantized"):
        q.transpose(0, 1)


def test_filling_and_assignment_quantize_the_value() -> None:
    q = torch.quantize_per_tensor(torch.zeros(2, 3), 0.1, 3, torch.quint8)
    q[0] = 1.04
    q[1, :2] = torch.tensor([0.5, -9.0])
    assert torch.allclose(q.dequantize(), torch.tensor([[1.0, 1.0, 1.0], [0.5, -0.3, 0.0]]))
    assert q.masked_fill(q.dequantize() > 0.9, 0.2).dequantize()[0].allclose(torch.tensor(0.2))
    assert q.index_put((torch.tensor([1]),), torch.tensor(2.0)).int_repr()[1].tolist() == [23] * 3
    assert q.fill_(-0.2).int_repr().unique().tolist() == [1]
    channels = by_channel()
    channels.fill_(0.5)
    assert (channels.dequantize() - 0.5).abs().max() < 0.011
    channels[0, 1, 2] = 0.25
    assert abs(channels.dequantize()[0, 1, 2].item() - 0.25) < 0.01


def test_a_copy_takes_the_quantizer() -> None:
    source = torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.quint8)
    target = torch.quantize_per_tensor(torch.zeros(3), 0.1, 3, torch.quint8)
    target.copy_(source)
    assert target.q_scale() == 0.5 and target.q_zero_point() == 1
    with pytest.raises(RuntimeError, match="please use dequantize"):
        torch.empty(3).copy_(source)


def test_forms_in_place_and_new_tensors() -> None:
    q = torch.quantize_per_tensor(torch.tensor([-1.0, 2.0]), 0.1, 30, torch.quint8)
    assert q.relu_() is q and q.dequantize().tolist() == [0.0, 2.0]
    like = torch.empty_like(q)
    assert like.q_scale() == 0.1 and like.dtype is torch.quint8
    with pytest.raises(RuntimeError, match="doesn't match the input tensor's dtype"):
        torch.empty_like(q, dtype=torch.qint8)
    assert q.resize_(1, 2).shape == (1, 2) and q.T.shape == (2, 1)
    out = torch.quantize_per_tensor(torch.zeros(1), 0.1, 0, torch.quint8)
    row = torch.quantize_per_tensor(torch.arange(3.0).reshape(1, 3), 0.5, 2, torch.quint8)
    assert torch.ops.aten.reflection_pad1d(row, [1, 1], out=out) is out
    assert out.dequantize().tolist() == [[1.0, 0.0, 1.0, 2.0, 1.0]] and out.q_scale() == 0.5
    padded = torch.nn.functional.pad(q, (1, 1), "constant", 0.5)
    assert padded.is_quantized and padded.dequantize()[0, 0].item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("kind", "packed"), [(torch.quint4x2, [51, 51, 3]), (torch.quint2x4, [255, 3])]
)
def test_integers_below_eight_bits_are_shown_packed(kind: Any, packed: list[int]) -> None:
    q = torch.quantize_per_tensor(torch.ones(1, 5), 1.0, 2, kind)
    assert q.int_repr().tolist() == packed and q.dequantize().equal(torch.ones(1, 5))


def test_limits_of_quantized_dtypes() -> None:
    info = torch.iinfo(torch.qint8)
    assert (info.min, info.max, info.bits) == (-128, 127, 8)
    with pytest.raises(NotImplementedError, match="\"dtype\" not implemented for 'QInt8'"):
        info.dtype  # noqa: B018


def test_makers_of_integers() -> None:
    q = torch._make_per_tensor_quantized_tensor(torch.tensor([1, 2], dtype=torch.int8), 0.1, 3)
    assert torch.allclose(q.dequantize(), torch.tensor([-0.2, -0.1]))
    empty = torch._empty_affine_quantized([2, 3], scale=0.5, zero_point=2, dtype=torch.quint8)
    assert empty.shape == (2, 3) and empty.q_scale() == 0.5
    channels = torch._make_per_channel_quantized_tensor(
        torch.ones(2, 3, dtype=torch.uint8), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0
    )
    assert channels.q_per_channel_axis() == 0


def test_scale_and_zero_point_learn() -> None:
    x = torch.tensor([-9.0, 0.31, 0.52, 9.0], requires_grad=True)
    scale = torch.tensor([0.1], requires_grad=True)
    zero = torch.tensor([2.4], requires_grad=True)
    y = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15, 0.5)
    assert torch.allclose(y, torch.tensor([-0.2, 0.3, 0.5, 1.3]))
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    # Outside: the ends less the zero point; inside: the level less x / scale.
    expected = 0.5 * ((-2) + (3 - 3.1) + (5 - 5.2) + 13)
    assert scale.grad.item() == pytest.approx(expected, abs=1e-4)
    assert zero.grad.item() == pytest.approx(0.5 * 2 * -0.1)
