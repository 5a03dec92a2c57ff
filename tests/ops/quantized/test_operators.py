"""torch.ops.quantized against its definition: the floats, computed on, and quantized again."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritorch as torch
import tritorch.nn.functional as F

pytestmark = pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")

ops = torch.ops.quantized
random = np.random.RandomState(7)


def floats(*shape: int) -> Any:
    return torch.tensor(random.randn(*shape).astype(np.float32))


def quantized(x: Any, scale: float = 0.05, zero: int = 100, kind: Any = torch.quint8) -> Any:
    return torch.quantize_per_tensor(x, scale, zero, kind)


def near(result: Any, expected: Any, scale: float, steps: float = 1.001) -> None:
    assert result.is_quantized and abs(result.q_scale() - scale) < 1e-9
    assert (result.dequantize() - expected).abs().max() <= steps * scale


@pytest.mark.parametrize("kind", [torch.quint8, torch.qint8])
def test_sums_and_products_are_those_of_the_floats(kind: Any) -> None:
    zero = 100 if kind is torch.quint8 else 3
    a, b = quantized(floats(3, 5), 0.05, zero, kind), quantized(floats(3, 5), 0.04, zero, kind)
    for name, function in (("add", torch.add), ("mul", torch.mul)):
        exact = function(a.dequantize(), b.dequantize())
        plain = getattr(ops, name)(a, b, 0.07, zero)
        assert plain.int_repr().equal(quantized(exact, 0.07, zero, kind).int_repr())
        relu = getattr(ops, f"{name}_relu")(a, b, 0.07, zero)
        assert relu.int_repr().equal(quantized(exact.relu(), 0.07, zero, kind).int_repr())
        out = quantized(torch.zeros(3, 5), 0.07, zero, kind)
        assert getattr(ops, name).out(a, b, out) is out
        assert out.int_repr().equal(plain.int_repr())
    joined = ops.cat([a, b], 1, 0.05, zero)
    assert joined.shape == (3, 10) and joined.q_zero_point() == zero
    near(ops.matmul(a, b.t(), 0.1, zero), a.dequantize() @ b.dequantize().t(), 0.1)


@pytest.mark.parametrize("number", [0.3, -0.7, 2, 0])
def test_a_number_changes_the_quantizer_and_not_the_precision(number: float) -> None:
    a = quantized(floats(4, 6))
    near(ops.add(a, number), a.dequantize() + number, ops.add(a, number).q_scale())
    scaled = ops.mul(a, number)
    assert (scaled.dequantize() - a.dequantize() * number).abs().max() < 1e-5
    assert (ops.mul_relu(a, number).dequantize() >= 0).all()
    assert (ops.add_relu(a, number).dequantize() >= 0).all()


def test_a_large_number_moves_the_scale_too() -> None:
    a = quantized(floats(4, 6))
    moved = ops.add(a, 30.0)
    assert moved.q_zero_point() == 0 and moved.q_scale() > a.q_scale()
    near(moved, a.dequantize() + 30, moved.q_scale())


def test_operands_of_two_dtypes_are_refused() -> None:
    a, b = quantized(floats(2)), quantized(floats(2), 0.05, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="one dtype"):
        ops.add(a, b, 0.1, 0)


# ---- linear layers and convolutions --------------------------------------------------------------


def weight_of(x: Any, by_channel: bool, axis: int = 0) -> Any:
    if not by_channel:
        return quantized(x, 0.01, 0, torch.qint8)
    scales = torch.linspace(0.005, 0.015, x.shape[axis]).double()
    return torch.quantize_per_channel(x, scales, torch.zeros_like(scales).long(), axis, torch.qint8)


@pytest.mark.parametrize("columns", [7, 700])
@pytest.mark.parametrize("by_channel", [False, True])
def test_linear(by_channel: bool, columns: int) -> None:
    weight, bias = weight_of(floats(5, columns) * 0.3, by_channel), floats(5)
    x = quantized(floats(2, 3, columns), 0.03, 120)
    packed = ops.linear_prepack(weight, bias)
    exact = F.linear(x.dequantize(), weight.dequantize(), bias)
    near(ops.linear(x, packed, 0.5, 90), exact.clamp(-45, 82.5), 0.5, 0.51)
    near(ops.linear_relu(x, packed, 0.5, 0), exact.relu(), 0.5, 0.51)
    inside = exact.where(exact > 0, exact * 0.1)
    near(ops.linear_leaky_relu(x, packed, 0.5, 90, 0.1), inside, 0.5, 0.51)
    near(ops.linear_tanh(x, packed, 1 / 128, 128), exact.tanh(), 1 / 128, 1.01)
    given = floats(2, 3, columns)
    error = (ops.linear_dynamic(given, packed) - F.linear(given, weight.dequantize(), bias)).abs()
    assert error.max() < 0.02 * columns**0.5
    unpacked = ops.linear_unpack(packed)
    assert unpacked[0].int_repr().equal(weight.int_repr()) and unpacked[1].equal(bias)


def test_weights_of_half_precision() -> None:
    weight, bias, x = floats(5, 9), floats(5), floats(3, 9)
    packed = ops.linear_prepack_fp16(weight, bias)
    assert ops.linear_unpack_fp16(packed)[0].equal(weight.half().float())
    exact = F.linear(x, weight.half().float(), bias)
    assert torch.allclose(ops.linear_dynamic_fp16(x, packed), exact, atol=1e-6)
    assert torch.allclose(ops.linear_relu_dynamic_fp16(x, packed), exact.relu(), atol=1e-6)


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions(dims: int, groups: int, by_channel: bool) -> None:
    weight = weight_of(floats(6, 8 // groups, *[3] * dims) * 0.2, by_channel)
    bias, x = floats(6), quantized(floats(2, 8, *[6] * dims), 0.03, 120)
    geometry = [2] * dims, [1] * dims, [1] * dims, groups
    packed = getattr(ops, f"conv{dims}d_prepack")(weight, bias, *geometry)
    conv: Callable[..., Any] = getattr(F, f"conv{dims}d")
    exact = conv(x.dequantize(), weight.dequantize(), bias, 2, 1, 1, groups)
    near(getattr(ops, f"conv{dims}d")(x, packed, 0.2, 120), exact, 0.2, 0.51)
    near(getattr(ops, f"conv{dims}d_relu")(x, packed, 0.2, 0), exact.relu(), 0.2, 0.51)
    unpacked = getattr(ops, f"conv{dims}d_unpack")(packed)
    assert unpacked[0].shape == weight.shape and unpacked[1].equal(bias)
    assert packed.stride() == [1, 2] if dims == 1 else [2] * dims


def test_many_channels_stay_exact() -> None:
    """More products than float32 sums exactly."""
    weight = quantized(torch.full((1, 2000, 1, 1), 1.27), 0.01, 0, torch.qint8)
    x = quantized(torch.full((1, 2000, 1, 1), 2.55), 0.01, 0)
    packed = ops.conv2d_prepack(weight, None, [1, 1], [0, 0], [1, 1], 1)
    assert ops.conv2d(x, packed, 127 * 255 * 2000 * 1e-4 / 200, 0).int_repr().item() == 200


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions(dims: int) -> None:
    weight = quantized(floats(4, 3, *[3] * dims) * 0.2, 0.01, 0, torch.qint8)
    bias, x = floats(3), quantized(floats(2, 4, *[4] * dims), 0.03, 120)
    geometry = [2] * dims, [1] * dims, [1] * dims, [1] * dims, 1
    packed = getattr(ops, f"conv_transpose{dims}d_prepack")(weight, bias, *geometry)
    conv: Callable[..., Any] = getattr(F, f"conv_transpose{dims}d")
    exact = conv(x.dequantize(), weight.dequantize(), bias, 2, 1, 1)
    near(getattr(ops, f"conv_transpose{dims}d")(x, packed, 0.2, 120), exact, 0.2, 0.51)
    assert packed.transpose() is True


def test_packed_parameters_are_copied_and_pickled() -> None:
    conv = ops.conv2d_prepack(
        weight_of(floats(4, 2, 3, 3), True), floats(4), [2, 1], [1, 1], [1, 1], 1
    )
    linear = ops.linear_prepack(weight_of(floats(4, 3), False), None)
    for packed in (conv, linear):
        weight = packed.unpack()[0]
        for again in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
            assert type(again) is torch.ScriptObject and again is not packed
            assert again.unpack()[0].int_repr().equal(weight.int_repr())
    assert copy.deepcopy(conv).stride() == [2, 1]
    assert "Conv2dPackedParamsBase" in str(conv._type())


def test_archives_keep_packed_parameters() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.packed = ops.linear_prepack(weight_of(floats(4, 3), True), floats(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.quantized.linear_dynamic(x, self.packed)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer, file = torch.jit.script(Layer()), io.BytesIO()
        torch.jit.save(layer, file)
        x = floats(2, 3)
        assert torch.jit.load(io.BytesIO(file.getvalue()))(x).equal(layer(x))


# ---- tables of embeddings ------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "levels"), [("byte", 255), ("4bit", 15), ("2bit", 3)])
def test_rows_of_few_bits(word: str, levels: int) -> None:
    table = floats(10, 8)
    packed = getattr(ops, f"embedding_bag_{word}_prepack")(table)
    rows = getattr(ops, f"embedding_bag_{word}_unpack")(packed)
    step = (table.amax(1) - table.amin(1)) / levels
    assert ((rows - table).abs() <= step.unsqueeze(1) * 0.52 + 2e-3).all()
    bags = getattr(ops, f"embedding_bag_{word}_rowwise_offsets")(
        packed, torch.tensor([1, 2, 3, 1]), torch.tensor([0, 1, 1]),
        per_sample_weights=torch.tensor([0.5, 1.0, 2.0, 3.0]),
    )  # fmt: skip
    expected = torch.stack([0.5 * rows[1], torch.zeros(8), rows[2] + 2 * rows[3] + 3 * rows[1]])
    assert torch.allclose(bags, expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "word"), [(torch.quint8, "byte"), (torch.quint4x2, "4bit")])
def test_quantized_tables(kind: Any, word: str) -> None:
    scales = torch.linspace(0.25, 0.5, 10)
    table = torch.quantize_per_channel(floats(10, 8), scales, torch.full((10,), 7.0), 0, kind)
    packed = ops.embedding_bag_prepack(table)
    rows = getattr(ops, f"embedding_{word}")(packed, torch.tensor([1, 5]))
    assert torch.allclose(rows, table.dequantize()[[1, 5]], atol=2e-3)
    bags = getattr(ops, f"embedding_bag_{word}")(packed, torch.tensor([[1, 5], [2, 2]]))
    assert torch.allclose(bags[0], rows.sum(0), atol=1e-5)
    with pytest.raises(RuntimeError, match="out of the table"):
        getattr(ops, f"embedding_{word}")(packed, torch.tensor([10]))


# ---- recurrent networks --------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_recurrent_networks_follow_their_float_ones(mode: str, bidirectional: bool) -> None:
    gates, directions = (4 if mode == "lstm" else 3), 2 if bidirectional else 1
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[mode]
    network = kind(5, 6, bidirectional=bidirectional)
    cells = []
    for suffix in ("", "_reverse")[:directions]:
        packed = [
            ops.linear_prepack(
                quantized(getattr(network, f"weight_{part}_l0{suffix}").detach(), 0.004, 0,
                          torch.qint8),
                getattr(network, f"bias_{part}_l0{suffix}"),
            )
            for part in ("ih", "hh")
        ]  # fmt: skip
        zeros = torch.zeros(gates * 6)
        cells.append(ops.make_quantized_cell_params_dynamic(*packed, zeros, zeros, True))
    x, h = floats(4, 3, 5), torch.zeros(directions, 3, 6)
    state = [h, h] if mode == "lstm" else h
    function = getattr(torch, f"quantized_{mode}")
    out, *last = function(x, state, cells, True, 1, 0.0, False, bidirectional, False)
    with torch.no_grad():
        exact = network(x)[0]
    assert (out - exact).abs().max() < 0.03
    assert torch.allclose(last[0][0], out[-1, :, :6])
    sizes, rows = torch.tensor([3, 2, 2, 1]), floats(8, 5)
    packed_out = function(rows, sizes, state, cells, True, 1, 0.0, False, bidirectional)[0]
    with torch.no_grad():
        sequence = torch.nn.utils.rnn.PackedSequence(rows, sizes)
        assert (packed_out - network(sequence)[0].data).abs().max() < 0.03


# ---- weights that are packed as integers ---------------------------------------------------------


def test_products_with_weights_of_four_bits() -> None:
    q = torch.tensor(random.randint(0, 16, (32, 64)).astype(np.int32))
    scales = torch.tensor(random.rand(2, 32, 2).astype(np.float32))
    weight = (q.float() - 8).reshape(32, 2, 32) * scales[..., 0].t().unsqueeze(2)
    weight = (weight + scales[..., 1].t().unsqueeze(2)).reshape(32, 64)
    x = floats(3, 64)
    packed = torch._convert_weight_to_int4pack_for_cpu(q, 2)
    assert packed.shape == (32, 32) and packed.dtype == torch.uint8
    product = torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)
    assert torch.allclose(product, x @ weight.t(), atol=1e-3)
    halves = (q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8)
    on_gpu = torch._convert_weight_to_int4pack(halves, 2)
    assert on_gpu.shape == (4, 2, 32, 1) and on_gpu.dtype == torch.int32
    assert torch.allclose(torch._weight_int4pack_mm(x, on_gpu, 32, scales), product)


def test_products_that_quantize_their_rows() -> None:
    bytes_ = torch.tensor(random.randint(0, 256, (32, 32)).astype(np.uint8))
    scales, bias = torch.rand(32, 1) * 0.1, floats(32)
    packed = torch._dyn_quant_pack_4bit_weight(bytes_, scales, bias, 64, 64, 32)
    flat = torch.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(32, 64)
    x = floats(3, 64)
    exact = F.linear(x, (flat.float() - 8) * scales, bias)
    result = torch._dyn_quant_matmul_4bit(x, packed, 64, 64, 32)
    assert (result - exact).abs().max() < 0.1


# ---- on the GPU ----------------------------------------------------------------------------------


@pytest.mark.device
@pytest.mark.parametrize("by_channel", [False, True])
def test_the_gpu_gives_the_same_integers(by_channel: bool) -> None:
    weight, bias = weight_of(floats(7, 33) * 0.1, by_channel), floats(7)
    kernel, x = weight_of(floats(5, 4, 3, 3) * 0.1, by_channel), floats(5, 33)
    image = floats(2, 4, 6, 6)

    def run(device: str) -> list[Any]:
        to = lambda value: value.to(device)
        layer = ops.linear_prepack(to(weight), to(bias))
        conv = ops.conv2d_prepack(to(kernel), None, [1, 1], [1, 1], [1, 1], 1)
        q = quantized(to(x))
        return [
            ops.linear(q, layer, 0.05, 90).int_repr(),
            ops.conv2d_relu(quantized(to(image)), conv, 0.05, 3).int_repr(),
            ops.add(q, q, 0.1, 80).int_repr(),
            (ops.linear_dynamic(to(x), layer, True) * 1e5).round().int(),
        ]

    for here, there in zip(run("cpu"), run("cuda")):
        assert there.is_cuda and (here.int() - there.cpu().int()).abs().max() <= 1


def test_compiled_layers_give_what_eager_ones_do() -> None:
    packed = ops.linear_prepack(weight_of(floats(4, 3), True), floats(4))

    def layer(x: Any) -> Any:
        q = torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)
        return ops.linear_relu(q, packed, 0.05, 3).dequantize() * 2

    x = floats(5, 3)
    assert torch.compile(layer)(x).equal(layer(x))
