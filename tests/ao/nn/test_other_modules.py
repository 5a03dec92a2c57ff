"""Dynamic, reference, quantizable and sparse modules; former paths."""

import importlib
import io
import subprocess
import sys
import threading

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import quantization
from tritorch.ao.nn import quantizable, quantized as nnq
from tritorch.ao.nn.quantized import dynamic as nnqd, reference as nnqr
from tritorch.ao.nn.sparse import quantized as sparse


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_recurrent_networks(kind, dtype):
    torch.manual_seed(0)
    net = getattr(nn, kind)(3, 5, 2, bidirectional=True).eval()
    qconfig = quantization.default_dynamic_qconfig
    net.qconfig = qconfig if dtype is torch.qint8 else quantization.float16_dynamic_qconfig
    q = getattr(nnqd, kind).from_float(net)
    x = torch.randn(4, 2, 3)
    assert (q(x)[0] - net(x)[0]).abs().max() < 0.05
    assert q.get_weight()["weight_hh_l1_reverse"].shape == net.weight_hh_l1_reverse.shape
    assert torch.equal(q.get_bias()["bias_ih_l0"], net.bias_ih_l0)
    packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2])
    lengths = q(packed)[0]
    assert (lengths.data - net(packed)[0].data).abs().max() < 0.05
    other = getattr(nnqd, kind)(3, 5, 2, bidirectional=True, dtype=dtype)
    file = io.BytesIO()
    torch.save(q.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=False))
    assert torch.equal(other(x)[0], q(x)[0])
    script = torch.jit.script(q)
    assert torch.equal(script(x)[0], q(x)[0])
    assert torch.equal(script(packed)[0].data, lengths.data)
    with pytest.raises(RuntimeError, match="Expected 3, got 2"):
        q(torch.randn(4, 2, 2))


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(kind):
    torch.manual_seed(0)
    cell = getattr(nn, kind)(3, 5)
    cell.qconfig = quantization.default_dynamic_qconfig
    q = getattr(nnqd, kind).from_float(cell)
    x = torch.randn(2, 3)
    first = (lambda out: out[0]) if kind == "LSTMCell" else (lambda out: out)
    assert (first(q(x)) - first(cell(x))).abs().max() < 0.05
    other = getattr(nnqd, kind)(3, 5)
    other.load_state_dict(q.state_dict())
    assert sorted(q.state_dict()) == ["_packed_weight_hh", "_packed_weight_ih"]
    assert torch.equal(other.get_weight()["weight_ih"], q.get_weight()["weight_ih"])


def test_dynamic_linear_of_older_versions_uses_the_whole_range():
    torch.manual_seed(0)
    linear = nn.Linear(8, 4)
    linear.qconfig = quantization.default_dynamic_qconfig
    q = nnqd.Linear.from_float(linear)
    x = torch.randn(3, 8)
    assert (q(x) - linear(x)).abs().max() < 0.05
    state = q.state_dict()
    assert state._metadata[""] == {"version": 4}
    state._metadata[""]["version"] = 3
    other = nnqd.Linear(8, 4)
    other.load_state_dict(state)
    assert other.version == 3 and not torch.equal(other(x), q(x))


def test_dynamic_convolutions_warn():
    with pytest.warns(UserWarning, match="DynamicQuantizedConv2d module has poor numerical"):
        conv = nnqd.Conv2d(1, 1, 1)
    assert tuple(conv(torch.randn(1, 1, 2, 2)).shape) == (1, 1, 2, 2)


def test_reference_modules():
    torch.manual_seed(0)
    qparams = {
        "qscheme": torch.per_channel_affine, "dtype": torch.qint8, "axis": 0,
        "scale": torch.full((4,), 0.1), "zero_point": torch.zeros(4, dtype=torch.int),
    }  # fmt: skip
    linear = nn.Linear(6, 4)
    ref = nnqr.Linear.from_float(linear, qparams)
    x = torch.randn(2, 6)
    rounded = (linear.weight / 0.1).round() * 0.1
    assert torch.allclose(ref(x), nn.functional.linear(x, rounded, linear.bias), atol=1e-5)
    assert [*ref.state_dict()] == [
        "weight", "bias", "weight_scale", "weight_zero_point", "weight_axis", "weight_qscheme",
        "weight_dtype",
    ]  # fmt: skip
    other = nnqr.Linear(6, 4)
    other.load_state_dict(ref.state_dict())
    assert torch.equal(other.weight_scale, ref.weight_scale)
    q = nnq.Linear.from_reference(ref, 0.1, 5)
    assert torch.equal(q.weight().int_repr(), ref.get_quantized_weight().int_repr())
    net = nn.LSTM(3, 4)
    by_name = {name: {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.01,
                      "zero_point": 0} for name in ("weight_ih_l0", "weight_hh_l0")}  # fmt: skip
    both = nnqr.LSTM.from_float(net, {**by_name, "is_decomposed": False})
    steps = torch.randn(5, 2, 3)
    assert 0 < (both(steps)[0] - net(steps)[0]).abs().max() < 0.02
    assert repr(both) == "QuantizedLSTM(Reference)(3, 4)"
    assert (nnqd.LSTM.from_reference(both)(steps)[0] - net(steps)[0]).abs().max() < 0.05


@pytest.mark.parametrize("split_gates", [False, True])
def test_quantizable_lstm(split_gates):
    torch.manual_seed(0)
    net = nn.LSTM(3, 4, 2, bidirectional=True).eval()
    net.qconfig = quantization.get_default_qconfig("fbgemm")
    observed = quantizable.LSTM.from_float(net, split_gates=split_gates)
    x = torch.randn(5, 2, 3)
    out, (h, c) = observed(x)
    want, (h_want, c_want) = net(x)
    assert torch.allclose(out, want, atol=1e-5)
    assert torch.allclose(h, h_want, atol=1e-5) and torch.allclose(c, c_want, atol=1e-5)
    q = nnq.LSTM.from_observed(observed)
    got = q(torch.quantize_per_tensor(x, 0.03, 128, torch.quint8))[0].dequantize()
    assert type(q) is nnq.LSTM and (got - want).abs().max() < 0.1


def test_quantizable_attention():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, add_bias_kv=True).eval()
    attention.qconfig = quantization.get_default_qconfig("fbgemm")
    observed = quantizable.MultiheadAttention.from_float(attention)
    x = torch.randn(5, 3, 8)
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = True
    for got, want in zip(observed(x, x, x, mask), attention(x, x, x, mask)):
        assert torch.allclose(got, want, atol=1e-5)
    q = nnq.MultiheadAttention.from_observed(observed)
    y = torch.quantize_per_tensor(x, 0.03, 128, torch.quint8)
    assert (q(y, y, y, mask)[0].dequantize() - attention(x, x, x, mask)[0]).abs().max() < 0.1


def test_sparse_linear():
    torch.manual_seed(0)
    weight = torch.randn(6, 10)
    weight[:, 4:8] = 0
    q = torch.quantize_per_tensor(weight, 0.05, 0, torch.qint8)
    linear = sparse.Linear(10, 6, 1, 4)
    linear.set_weight_bias(q, torch.randn(6), 1, 4)
    packed = linear._packed_params._packed_params
    state, name = packed.__getstate__()
    assert name == "__torch__.torch.classes.sparse.LinearPackedParamsBase"
    version, _, height, width, *_, blocks, rows, columns = state
    assert (version, height, width, rows, columns) == (2, 1, 4, 6, 10)
    assert blocks.dtype is torch.uint8 and len(blocks) == 6 * 2 * 4
    made = type(packed).__new__(type(packed))
    made.__setstate__((state, name))
    assert torch.equal(made.unpack()[0].int_repr(), q.int_repr())
    dynamic = sparse.dynamic.Linear(10, 6, 1, 4)
    dynamic.set_weight_bias(q, None, 1, 4)
    x = torch.randn(2, 10)
    assert (dynamic(x) - nn.functional.linear(x, q.dequantize())).abs().max() < 0.3


@pytest.mark.parametrize(("former", "present", "names"), [
    ("nn.quantized", "ao.nn.quantized", "Linear Conv2d FloatFunctional functional MaxPool2d"),
    ("nn.quantized.modules.linear", "ao.nn.quantized.modules.linear", "LinearPackedParams"),
    ("nn.quantized.dynamic.modules.rnn", "ao.nn.quantized.dynamic.modules.rnn", "GRU"),
    ("nn.qat", "ao.nn.qat", "Conv2d"), ("nn.intrinsic.qat", "ao.nn.intrinsic.qat", "ConvBn2d"),
    ("nn.quantizable", "ao.nn.quantizable", "LSTM MultiheadAttention"),
    ("quantization", "ao.quantization", "prepare QConfig default_qconfig MinMaxObserver"),
    ("quantization.observer", "ao.quantization", "MinMaxObserver"),
    ("quantization.fx.quantization_patterns", "ao.quantization.fx.quantize_handler",
     "QuantizeHandler"),
])  # fmt: skip
def test_former_paths(former, present, names):
    old = importlib.import_module(f"tritorch.{former}")
    new = importlib.import_module(f"tritorch.{present}")
    for name in names.split():
        if name == "functional":
            assert old.functional.linear is new.functional.linear
        else:
            assert getattr(old, name) is getattr(new, name) and name in dir(old)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        old.nothing  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module(f"tritorch.{former}.nothing")


ALIASED = """
import tritorch
tritorch.as_torch()
import torch.nn.quantized.modules.linear as linear, torch.nn.intrinsic.qat, torch.quantization
from torch.nn.modules.batchnorm import _BatchNorm
import torch.ao.nn.quantized as nnq
assert linear.Linear is nnq.Linear is torch.nn.quantized.Linear
assert linear.Linear.__module__ == "torch.ao.nn.quantized.modules.linear"
assert repr(nnq.Linear(1, 1)).endswith("qscheme=torch.per_tensor_affine)")
assert "BatchNorm2d" in torch.nn.quantized.modules.batchnorm.__all__
assert issubclass(nnq.BatchNorm2d, _BatchNorm) and not _BatchNorm.__module__.startswith("torch.ao")
assert torch.nn.intrinsic.qat.ConvBn2d is torch.ao.nn.intrinsic.qat.ConvBn2d
assert torch.quantization.QConfig is torch.ao.quantization.QConfig
"""


def test_former_paths_under_the_alias():
    subprocess.run([sys.executable, "-c", ALIASED], check=True)


def test_blocks_of_sparse_weights():
    pattern = sparse.utils.LinearBlockSparsePattern
    with pattern(8, 1):
        assert pattern.block_size() == (8, 1)
        with pattern(1, 4):
            assert pattern.block_size() == (1, 4)
        assert pattern.block_size() == (8, 1)
        taken = []
        other = threading.Thread(target=lambda: taken.append(pattern.rlock.acquire(timeout=0.01)))
        other.start()
        other.join()
        assert taken == [False]
    assert pattern.block_size() == (1, 4) and pattern.rlock.acquire(blocking=False)
    pattern.rlock.release()
    with pytest.raises(AssertionError, match="Invalid linear block sparse pattern"):
        pattern(2, 2)
