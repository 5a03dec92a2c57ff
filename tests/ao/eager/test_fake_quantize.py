"""Fake quantization: the grid, switches, learned scales, states."""

import numpy as np
import pytest

import tritorch as torch
from tritorch.ao.quantization import (
    FakeQuantize,
    FixedQParamsFakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    disable_fake_quant,
    disable_observer,
    enable_fake_quant,
    enable_observer,
)
from tritorch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

X = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 4)).astype("float32"))


def grid(x, scale, zero, low, high):
    q = np.clip(np.rint(x * (np.float32(1) / np.float32(scale))) + zero, low, high)
    return (q - zero) * np.float32(scale)


def test_values_lie_on_the_grid():
    fake = FakeQuantize(MinMaxObserver, 0, 255, dtype=torch.quint8)
    y = fake(X)
    wanted = grid(X.numpy(), fake.scale.item(), fake.zero_point.item(), 0, 255)
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-6)
    channels = default_per_channel_weight_fake_quant()
    y = channels(X)
    assert channels.scale.shape == (6,)
    wanted = grid(X.numpy(), channels.scale.numpy()[:, None], 0, -128, 127)
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-6)


def test_halves_are_rounded_in_float32():
    fake = FakeQuantize(MinMaxObserver, 0, 255, dtype=torch.quint8)
    half = X.half()
    y = fake(half)
    wanted = grid(half.float().numpy(), fake.scale.item(), fake.zero_point.item(), 0, 255)
    assert y.dtype is torch.float16
    np.testing.assert_array_equal(y.numpy(), wanted.astype("float16"))


def test_gradients_pass_inside_the_range():
    fake = FakeQuantize(MovingAverageMinMaxObserver, 0, 255, averaging_constant=1.0)
    fake(torch.tensor([-1.0, 1.0]))
    disable_observer(fake)
    x = torch.tensor([-5.0, 0.3, 5.0], requires_grad=True)
    fake(x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_switches():
    model = torch.nn.Sequential(FakeQuantize(MinMaxObserver), default_fused_wt_fake_quant())
    model.apply(disable_fake_quant)
    assert torch.equal(model(X), X)
    assert model[0].activation_post_process.max_val.item() == X.max().item()
    model.apply(disable_observer), model.apply(enable_fake_quant)
    before = model[0].scale.clone()
    model(X * 10)
    assert torch.equal(model[0].scale, before)
    model.apply(enable_observer)
    model(X * 10)
    assert model[0].scale.item() > before.item()


def test_fused_is_the_moving_average():
    settings = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
    fused = FusedMovingAvgObsFakeQuantize(MovingAverageMinMaxObserver, **settings)
    plain = FakeQuantize(MovingAverageMinMaxObserver, **settings)
    for step in range(3):
        assert torch.allclose(fused(X * (step + 1)), plain(X * (step + 1)), atol=1e-6)
    assert fused.fake_quant_enabled.dtype is torch.int64
    assert fused(torch.empty(0, 4)).shape == (0, 4)
    with pytest.raises(AssertionError, match="only works with MovingAverage"):
        FusedMovingAvgObsFakeQuantize(MinMaxObserver)


def test_fixed():
    fake = default_fixed_qparams_range_0to1_fake_quant()
    assert isinstance(fake, FixedQParamsFakeQuantize)
    assert fake(torch.tensor([0.5, 2.0])).tolist() == [0.5, 255 / 256]
    with pytest.raises(AssertionError, match="must be a FixedQParamsObserver"):
        FixedQParamsFakeQuantize(MinMaxObserver)


def test_state_of_other_shapes():
    source, target = (default_per_channel_weight_fake_quant() for _ in range(2))
    source(X)
    target.load_state_dict(source.state_dict())
    assert torch.equal(target.scale, source.scale) and target.zero_point.shape == (6,)
    assert [*source.state_dict()] == [
        "fake_quant_enabled",
        "observer_enabled",
        "scale",
        "zero_point",
        "activation_post_process.eps",
        "activation_post_process.min_val",
        "activation_post_process.max_val",
    ]


def test_bounds_are_checked():
    with pytest.raises(AssertionError, match="quant_min out of bound"):
        FakeQuantize(quant_min=-1, quant_max=5)
    with pytest.raises(AssertionError, match="quant_max out of bound"):
        FakeQuantize(MinMaxObserver.with_args(dtype=torch.qint8), 0, 255)


def test_learned_scales():
    fake = _LearnableFakeQuantize(
        MovingAverageMinMaxObserver, 0, 15, use_grad_scaling=True, dtype=torch.quint8
    )
    assert fake.bitwidth == 4
    fake(X)
    fake.enable_param_learning()
    fake.scale.data.mul_(3)  # far from the best, which learning finds
    static = fake.scale.item()
    optimizer = torch.optim.SGD([fake.scale, fake.zero_point], 0.02)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = ((fake(X) - X) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert fake.scale.item() < static and losses[-1] < losses[0]
    fake.enable_static_observation()
    assert torch.equal(fake(X), X) and not fake.scale.requires_grad
    channels = _LearnableFakeQuantize(
        MovingAveragePerChannelMinMaxObserver, -8, 7, channel_len=6, dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric, ch_axis=0,
    )  # fmt: skip
    assert channels(X).shape == X.shape and channels.zero_point.abs().sum().item() == 0
