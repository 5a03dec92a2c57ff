"""Quantized modules: values beside float ones, state dicts of all versions, copies."""

import copy
import io

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import quantization
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.intrinsic import quantized as nniq

QCONFIG = quantization.get_default_qconfig("fbgemm")


def quantized(x, scale=0.05, zero=60):
    return torch.quantize_per_tensor(x, scale, zero, torch.quint8)


def converted(module, x):
    """A module and the quantized one of it, after it has seen an input."""
    module.eval().qconfig = QCONFIG
    quantization.prepare(nn.Sequential(module), inplace=True)
    module(x)
    return module


CASES = {
    "linear": (nnq.Linear, lambda: nn.Linear(6, 4), (8, 6)),
    "linear_relu": (nniq.LinearReLU, lambda: nni.LinearReLU(nn.Linear(6, 4), nn.ReLU()), (8, 6)),
    "conv1d": (nnq.Conv1d, lambda: nn.Conv1d(2, 4, 3, padding=1, groups=2), (2, 2, 7)),
    "conv2d": (nnq.Conv2d, lambda: nn.Conv2d(2, 4, 3, 2, bias=False), (2, 2, 7, 6)),
    "conv2d_reflect": (
        nnq.Conv2d, lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), (2, 2, 5, 6),
    ),
    "conv2d_relu": (
        nniq.ConvReLU2d, lambda: nni.ConvReLU2d(nn.Conv2d(2, 4, 3), nn.ReLU()), (2, 2, 5, 6),
    ),
    "conv3d": (nnq.Conv3d, lambda: nn.Conv3d(2, 3, 2, dilation=2), (1, 2, 5, 5, 5)),
    "batch_norm": (nnq.BatchNorm2d, lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "layer_norm": (nnq.LayerNorm, lambda: nn.LayerNorm(6), (8, 6)),
    "elu": (nnq.ELU, nn.ELU, (8, 6)),
    "hardswish": (nnq.Hardswish, nn.Hardswish, (8, 6)),
    "leaky_relu": (nnq.LeakyReLU, nn.LeakyReLU, (8, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_floats_to_a_step(name):
    torch.manual_seed(0)
    kind, make, shape = CASES[name]
    x = torch.randn(shape)
    module = converted(make(), x)
    want = module(x)
    q = kind.from_float(module)
    got = q(quantized(x))
    assert got.dtype is torch.quint8
    assert (got.dequantize() - want).abs().max() < 6 * got.q_scale() + 0.06
    again = copy.deepcopy(q)
    assert torch.equal(again(quantized(x)), got)
    state = q.state_dict()
    other = kind.from_float(converted(make(), x))
    other.load_state_dict(state)
    assert torch.equal(other(quantized(x)).int_repr(), got.int_repr())
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file)
    assert [*loaded] == [*state] and loaded._metadata == state._metadata
    file = io.BytesIO()
    torch.save(q, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(quantized(x)), got)


def test_state_dicts_have_pytorchs_entries():
    linear = nnq.Linear(3, 2)
    assert [*linear.state_dict()] == [
        "scale", "zero_point", "_packed_params.dtype", "_packed_params._packed_params",
    ]  # fmt: skip
    assert linear.state_dict()._metadata == {
        "": {"version": 3}, "_packed_params": {"version": 3},
    }  # fmt: skip
    weight, bias = linear.state_dict()["_packed_params._packed_params"]
    assert weight.dtype is torch.qint8 and tuple(bias.shape) == (2,)
    assert [*nnq.Conv2d(1, 1, 1).state_dict()] == ["weight", "bias", "scale", "zero_point"]
    assert [*nnq.Embedding(2, 4).state_dict()] == [
        "_packed_params.dtype", "_packed_params._packed_weight",
    ]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_older_state_dicts_of_linear(version):
    torch.manual_seed(0)
    linear = nnq.Linear(3, 2)
    weight = torch.quantize_per_tensor(torch.randn(2, 3), 0.02, 0, torch.qint8)
    linear.set_weight_bias(weight, torch.randn(2))
    state = linear.state_dict()
    values = state.pop("_packed_params._packed_params")
    prefix = "" if version == 1 else "_packed_params."
    if version == 1:
        del state["_packed_params.dtype"]
    state[prefix + "weight"], state[prefix + "bias"] = values
    state._metadata[""]["version"] = state._metadata["_packed_params"]["version"] = version
    other = nnq.Linear(3, 2)
    other.load_state_dict(state)
    assert torch.equal(other.weight().int_repr(), weight.int_repr())
    assert torch.equal(other.bias(), linear.bias())


@pytest.mark.parametrize("dtype", [torch.quint8, torch.quint4x2])
def test_embeddings(dtype):
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(10, 16, mode="sum", include_last_offset=True)
    observer = quantization.PerChannelMinMaxObserver.with_args(
        dtype=dtype, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
    )
    bag.qconfig = quantization.QConfig(quantization.PlaceholderObserver, observer)
    q = nnq.EmbeddingBag.from_float(bag)
    arguments = torch.tensor([1, 4, 7]), torch.tensor([0, 2, 3])
    step = q.weight().q_per_channel_scales().max()
    assert (q(*arguments) - bag(*arguments)).abs().max() < 2 * step
    other = nnq.EmbeddingBag(10, 16, include_last_offset=True, dtype=dtype)
    other.load_state_dict(q.state_dict())
    assert torch.equal(other(*arguments), q(*arguments))
    with pytest.raises(NotImplementedError, match="Supports quint8 and quint4x2. Got dtype"):
        nnq.Embedding(3, 4, dtype=torch.qint8)


def test_functional_modules():
    torch.manual_seed(0)
    f = nnq.FloatFunctional()
    f.activation_post_process = quantization.MinMaxObserver()
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    want = f.add_relu(x, y)
    q = nnq.QFunctional.from_float(f)
    got = q.add_relu(quantized(x, 0.004, 0), quantized(y, 0.004, 0))
    assert (got.dequantize() - want).abs().max() <= got.q_scale()
    assert repr(q) == f"QFunctional(\n  scale={q.scale}, zero_point=0\n" \
        "  (activation_post_process): Identity()\n)"  # fmt: skip
    other = nnq.QFunctional()
    other.load_state_dict(q.state_dict())
    assert (other.scale, other.zero_point) == (pytest.approx(q.scale), q.zero_point)
    with pytest.raises(RuntimeError, match="not intended to use the 'forward'"):
        f(x)


def test_functions_refuse_floats():
    F = nnq.functional
    for call in (lambda x: F.avg_pool2d(x, 2), lambda x: F.hardtanh(x), lambda x: F.celu(x, 1.0, 0),
                 lambda x: F.interpolate(x, 2), lambda x: F.clamp(x, 0, 1)):  # fmt: skip
        with pytest.raises(ValueError, match="must be quantized"):
            call(torch.rand(1, 1, 4, 4))
    x = quantized(torch.rand(1, 1, 4, 4))
    weight = torch.quantize_per_tensor(torch.rand(2, 1, 3, 3), 0.02, 0, torch.qint8)
    assert tuple(F.conv2d(x, weight, None, padding=1, scale=0.1).shape) == (1, 2, 4, 4)
    with pytest.warns(UserWarning, match="upsample_nearest is deprecated"):
        assert tuple(F.upsample_nearest(x, scale_factor=2).shape) == (1, 1, 8, 8)


def test_script(tmp_path):
    """Modules as TorchScript, in archives too."""
    torch.manual_seed(0)
    x = quantized(torch.randn(1, 2, 5, 5))
    model = nn.Sequential(nnq.Conv2d(2, 3, 3), nniq.BNReLU2d(3), nnq.DeQuantize()).eval()
    script = torch.jit.script(model)
    script.save(tmp_path / "model.pt")
    assert torch.equal(torch.jit.load(tmp_path / "model.pt")(x), model(x))
    linear = nn.Sequential(nnq.Quantize(0.05, 3, torch.quint8), nnq.Linear(4, 2))
    torch.jit.script(linear).save(tmp_path / "linear.pt")
    rows = torch.randn(3, 4)
    assert torch.equal(torch.jit.load(tmp_path / "linear.pt")(rows), linear(rows))
