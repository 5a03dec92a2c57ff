"""autocast and GradScaler against what PyTorch's did (tools/record/amp.py)."""

import json
import pickle
import threading
from pathlib import Path

import pytest

import tritorch
from tests.amp import cases
from tritorch import amp
from tritorch.amp.policies import by_device
from tritorch.amp.state import state
from tritorch.core import gates
from tritorch.core.published import AUTOCAST

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
DEVICE = "cuda"


@pytest.mark.parametrize("expression", cases.EXPRESSIONS)
def test_dtypes_are_pytorchs(expression: str) -> None:
    assert cases.result(tritorch, expression) == RECORDED["dtypes"][expression]


# PyTorch's names of what is called otherwise here, or is not published.
OTHER_NAMES = {
    "_addmm_activation", "_convolution", "_grid_sampler_2d_cpu_fallback", "_lu_with_info",
    "_native_multi_head_attention", "_scaled_dot_product_flash_attention",
    "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "convolution", "cross_entropy_loss", "cudnn_convolution",
    "cudnn_convolution_transpose", "fake_quantize_per_tensor_affine", "grid_sampler",
    "grid_sampler_2d", "grid_sampler_3d", "mkldnn_rnn_layer", "multilabel_margin_loss_forward",
    "native_layer_norm", "nll_loss2d", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "svd", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d",
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_operator_on_pytorchs_list_has_a_policy(device: str) -> None:
    ours = {name for name, words in AUTOCAST.items() if by_device(words)[device]}
    theirs = {
        name.removeprefix("linalg_").removeprefix("fft_") if name != "fft_fft" else "fft"
        for name in RECORDED["registered"][device]
    }
    assert theirs - OTHER_NAMES - ours == set()


@pytest.mark.device
@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("x @ x", "float16"), ("x + x", "float32"), ("torch.mv(x, v)", "float16"),
        ("torch.exp(x_low)", "float32"), ("x_low.sum()", "float32"),
        ("x_low.sum(dtype=torch.bfloat16)", "bfloat16"), ("F.softmax(x_low, 0)", "float32"),
        ("F.linear(x, x)", "float16"), ("F.layer_norm(x_low, (3,))", "float32"),
        ("torch.addcmul(x, x_low, x_low)", "float32"), ("x_low + 1", "bfloat16"),
        ("torch.cat([x, x_low])", "float32"), ("x_low ** 2", "float32"),
    ],
)  # fmt: skip
def test_on_the_gpu(expression: str, dtype: str) -> None:
    names = {
        name: value.to(DEVICE) if isinstance(value, tritorch.Tensor) else value
        for name, value in cases.world(tritorch).items()
    }
    names["F"] = tritorch.nn.functional
    with tritorch.autocast("cuda"):
        got = eval(expression, names).dtype
    assert got is getattr(tritorch, dtype)


@pytest.mark.device
def test_binary_cross_entropy_is_refused_on_the_gpu() -> None:
    p = tritorch.full((3,), 0.5, device=DEVICE)
    with tritorch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        tritorch.nn.functional.binary_cross_entropy(p, p)


def test_only_the_named_kind_of_device_is_cast() -> None:
    x = tritorch.ones(2, 2)
    with amp.autocast("cuda"):
        assert (x @ x).dtype is tritorch.float32


def test_regions_nest_and_end() -> None:
    x = tritorch.ones(2, 2)
    with tritorch.autocast("cpu"):
        with tritorch.autocast("cpu", dtype=tritorch.float16):
            assert (x @ x).dtype is tritorch.float16
            with tritorch.autocast("cpu", enabled=False):
                assert (x @ x).dtype is tritorch.float32
        assert (x @ x).dtype is tritorch.bfloat16
        with pytest.raises(ZeroDivisionError), tritorch.autocast("cpu", dtype=tritorch.float16):
            raise ZeroDivisionError
        assert tritorch.get_autocast_dtype("cpu") is tritorch.bfloat16
    assert (x @ x).dtype is tritorch.float32
    assert not tritorch.is_autocast_enabled("cpu")


def test_other_threads_are_not_affected() -> None:
    seen = []
    with tritorch.autocast("cpu"):
        x = tritorch.ones(2, 2)
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [tritorch.float32]


def test_as_a_decorator() -> None:
    @tritorch.autocast("cpu")
    def product(x: tritorch.Tensor) -> tritorch.Tensor:
        return x @ x

    assert product(tritorch.ones(2, 2)).dtype is tritorch.bfloat16


def test_parameters_are_cast_once_a_region() -> None:
    layer = tritorch.nn.Linear(3, 3)
    x = tritorch.ones(2, 3)
    with tritorch.autocast("cpu"):
        first = layer(x)
        kept = dict(state.cast)
        second = layer(x)
        assert len(kept) == 2 and all(state.cast[key] is value for key, value in kept.items())
        with tritorch.no_grad():  # a cast without a graph is another
            layer(x)
        assert len(state.cast) == 4
        third = layer(x)
        (first + second + third).sum().backward()
    assert not state.cast
    assert layer.weight.grad.dtype is tritorch.float32
    assert layer.weight.grad.tolist() == [[6.0] * 3] * 3


def test_a_parameter_written_within_a_region_is_cast_again() -> None:
    layer = tritorch.nn.Linear(2, 1, bias=False)
    x = tritorch.ones(1, 2)
    with tritorch.autocast("cpu"), tritorch.no_grad():
        layer.weight.fill_(1.0)
        assert layer(x).item() == 2.0
        layer.weight.fill_(2.0)
        assert layer(x).item() == 4.0


def test_gradients_through_casts() -> None:
    x = tritorch.ones(2, 2, requires_grad=True)
    with tritorch.autocast("cpu"):
        loss = tritorch.nn.functional.mse_loss(x @ x, tritorch.zeros(2, 2))
    loss.backward()
    assert loss.dtype is tritorch.float32 and x.grad.dtype is tritorch.float32
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_custom_functions() -> None:
    seen = []

    class Product(tritorch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            seen.append(tritorch.is_autocast_enabled("cpu"))
            return g @ x.t()

    class InFloat32(tritorch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=tritorch.float32)
        def forward(ctx, x):
            return x @ x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(tritorch.is_autocast_enabled("cpu"))
            return g

    x = tritorch.ones(2, 2, requires_grad=True)
    with tritorch.autocast("cpu"):
        y = Product.apply(x)
        z = InFloat32.apply(y)
    assert y.dtype is tritorch.bfloat16 and z.dtype is tritorch.float32
    z.sum().backward()
    assert seen == [False, True]


def test_wrong_devices_and_dtypes() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        amp.autocast(tritorch.device("cpu"))
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"):
        amp.autocast("meta")
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype"):
        region = amp.autocast("cpu", dtype=tritorch.float64)
    with region:
        assert not tritorch.is_autocast_enabled("cpu")


def test_gates_made_later_have_policies_too() -> None:
    made = gates.publish({"mm": lambda x, y: x @ y}, "tests.amp")
    assert made["mm"].policy is tritorch.mm.policy
    del gates.GATES["tests.amp"]


# ---- GradScaler ----------------------------------------------------------------------------------


def test_scaler_is_pytorchs() -> None:
    assert cases.scaler(tritorch) == RECORDED["scaler"]


@pytest.mark.device
def test_scaler_on_the_gpu() -> None:
    p = tritorch.nn.Parameter(tritorch.ones(3, device=DEVICE))
    optimizer = tritorch.optim.SGD([p], 0.5)
    scaler = amp.GradScaler(init_scale=4.0, growth_interval=1)
    for factor, scale, value in ((1.0, 8.0, 0.5), (float("inf"), 4.0, 0.5), (1.0, 8.0, 0.0)):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert p.tolist() == [value] * 3


def test_scaler_refuses_what_is_out_of_order() -> None:
    p = tritorch.nn.Parameter(tritorch.ones(3))
    optimizer = tritorch.optim.SGD([p], 0.5)
    scaler = amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.update()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()


def test_a_disabled_scaler_does_nothing() -> None:
    p = tritorch.nn.Parameter(tritorch.ones(3))
    optimizer = tritorch.optim.SGD([p], 0.5)
    scaler = amp.GradScaler("cpu", enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss and scaler.state_dict() == {} and scaler.get_scale() == 1.0
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5] * 3


def test_clipping_between_unscale_and_step() -> None:
    p = tritorch.nn.Parameter(tritorch.ones(4))
    optimizer = tritorch.optim.SGD([p], 1.0)
    scaler = amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale((p * 3).sum()).backward()
    scaler.unscale_(optimizer)
    norm = tritorch.nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    assert norm.item() == 6.0
    assert p.tolist() == pytest.approx([0.5] * 4, abs=1e-5)


def test_older_names() -> None:
    with pytest.warns(FutureWarning):
        region = tritorch.cuda.amp.autocast(enabled=False)
    with region:
        assert not tritorch.is_autocast_enabled()
    assert tritorch.get_autocast_gpu_dtype() is tritorch.float16
    assert tritorch.get_autocast_cpu_dtype() is tritorch.bfloat16


def test_devices_that_are_not_here_are_asked_for():
    """As torch 2.13 answers: a program asks for the device type that its tensors might have."""
    expected = dict.fromkeys(("mps", "mtia", "xpu"), tritorch.float16)
    expected |= dict.fromkeys(("hpu", "maia", "xla"), tritorch.bfloat16)
    for name, dtype in expected.items():
        assert not tritorch.is_autocast_enabled(name)
        assert tritorch.get_autocast_dtype(name) is dtype
    with pytest.raises(RuntimeError, match="unknown device type for autocast"):
        tritorch.is_autocast_enabled("meta")
