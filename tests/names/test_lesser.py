"""Lesser names whose behaviour PyTorch's CPU cannot show: GPUs' operators, threads, files."""

import copy
import pickle
import threading
import types
from pathlib import Path

import pytest

import tritorch as torch
import tritorch.nn.functional as F


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU, real or simulated")
    return request.param


# ---- batch norm in steps -------------------------------------------------------------------------


def test_batch_norm_in_steps_is_batch_norm(device):
    x = torch.randn(6, 3, 4, device=device)
    w, b, g = torch.randn(3, device=device), torch.randn(3, device=device), torch.randn_like(x)
    running = [torch.zeros(3, device=device), torch.ones(3, device=device)]
    parts = [x[:2], x[2:]]
    stats = [torch.batch_norm_stats(part, 1e-5) for part in parts]
    counts = torch.tensor([8.0, 16.0], device=device)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        x, torch.stack([s[0] for s in stats]), torch.stack([s[1] for s in stats]), *running, 0.1,
        1e-5, counts,
    )  # fmt: skip
    whole, other = x.clone().requires_grad_(), [torch.zeros(3, device=device)]
    other.append(torch.ones(3, device=device))
    weight, bias = w.clone().requires_grad_(), b.clone().requires_grad_()
    expected = F.batch_norm(whole, *other, weight, bias, True, 0.1, 1e-5)
    close(torch.batch_norm_elemt(x, w, b, mean, invstd, 1e-5), expected.detach())
    close(running[0], other[0])
    close(running[1], other[1])
    expected.backward(g)
    sums = [
        torch.batch_norm_backward_reduce(dy, part, mean, invstd, w, True, True, True)
        for dy, part in zip([g[:2], g[2:]], parts)
    ]
    total = [sum(column) for column in zip(*sums)]
    close(total[2], weight.grad)
    close(total[3], bias.grad)
    back = torch.batch_norm_backward_elemt(g, x, mean, invstd, w, *total[:2], counts)
    close(back, whole.grad)


def test_batch_norm_parts_of_one_size():
    x = torch.randn(4, 3, 4).half()
    mean, invstd = torch.batch_norm_stats(x, 1e-5)
    assert mean.dtype is torch.float32
    both = torch.batch_norm_gather_stats(
        x, torch.stack([mean, mean]), torch.stack([invstd, invstd]), None, None, 0.1, 1e-5, 8
    )
    close(both[0], mean)
    close(both[1], invstd)
    assert torch.batch_norm_elemt(x, None, None, mean, invstd, 1e-5).dtype is torch.float16
    kept = torch.batch_norm_backward_reduce(x, x, mean, invstd, None, False, False, True)
    assert kept[:3] == (None, None, None)
    assert kept[3].shape == (3,)


# ---- vendors' names ------------------------------------------------------------------------------


def test_vendors_names_are_ours(device):
    x, w = torch.randn(2, 4, 5, 5, device=device), torch.randn(6, 2, 3, 3, device=device)
    b, z = torch.randn(6, device=device), torch.randn(2, 6, 5, 5, device=device)
    expected = F.conv2d(x, w, b, 1, 1, 1, 2)
    one = [1, 1]
    close(torch.cudnn_convolution(x, w, one, one, one, 2, False, False, False) + b[:, None, None],
          expected)  # fmt: skip
    close(torch.mkldnn_convolution(x, w, b, one, one, one, 2), expected)
    close(torch.miopen_convolution(x, w, b, one, one, one, 2, False, False), expected)
    close(torch.cudnn_convolution_relu(x, w, b, one, one, one, 2), expected.relu())
    added = torch.miopen_convolution_add_relu(x, w, z, 0.5, b, one, one, one, 2)
    close(added, (expected + 0.5 * z).relu())
    t = torch.randn(4, 3, 3, 3, device=device)
    close(
        torch.cudnn_convolution_transpose(x, t, one, [0, 0], one, one, 1, False, False, False),
        F.conv_transpose2d(x, t, None, 1, 1),
    )
    close(torch.mkldnn_max_pool2d(x, 2), F.max_pool2d(x, 2))
    close(torch.mkldnn_adaptive_avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2))
    theta = torch.randn(2, 2, 3, device=device)
    grid = torch.cudnn_affine_grid_generator(theta, 2, 4, 3, 3)
    close(grid, F.affine_grid(theta, (2, 4, 3, 3), align_corners=True))
    close(torch.cudnn_grid_sampler(x, grid), F.grid_sample(x, grid, align_corners=True))
    assert torch.cudnn_is_acceptable(x) is False


def test_vendors_norms_and_losses():
    x = torch.randn(3, 4, 5)
    out, mean, rstd, reserve = torch.cudnn_batch_norm(
        x, torch.ones(4), None, None, None, True, 0.1, 1e-5
    )
    close(out, F.batch_norm(x, None, None, torch.ones(4), None, True))
    close(mean, x.mean((0, 2)))
    assert rstd.shape == (4,) and reserve.numel() == 0
    found = torch.miopen_batch_norm(
        x, torch.ones(4), None, torch.zeros(4), torch.ones(4), False, 0.1, 1e-5
    )
    assert [v.numel() for v in found[1:]] == [0, 0]
    dw, db = torch.mkldnn_linear_backward_weights(x, torch.randn(3, 4, 2), torch.ones(5, 2), True)
    assert dw.shape == (5, 2)
    close(db, x.sum((0, 1)))
    log_probs = torch.randn(6, 2, 4).log_softmax(2).requires_grad_()
    losses, gradient = torch.miopen_ctc_loss(
        log_probs, torch.tensor([[1, 2], [3, 1]]), [6, 6], [2, 2], 0, True, False
    )
    losses.sum().backward()
    close(log_probs.grad, gradient)


# ---- quantised -----------------------------------------------------------------------------------


def test_quantised_tensors_are_copied_moved_and_pickled(device):
    x = torch.randn(3, 4, device=device)
    q = torch.quantize_per_tensor(x, 0.05, 3, torch.qint8)
    for other in (copy.deepcopy(q), copy.copy(q), pickle.loads(pickle.dumps(q)), q.cpu()):
        assert other.is_quantized and other.q_zero_point() == 3
        assert other.int_repr().cpu().equal(q.int_repr().cpu())
    assert q.device.type == device
    with pytest.raises(NotImplementedError, match="QuantizedCPU"):
        q + q
    with pytest.raises(NotImplementedError, match="not quantised"):
        x.q_scale()
    with pytest.raises(RuntimeError, match="one scale"):
        q.q_per_channel_scales()


def test_quantised_repr_says_how():
    q = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 2, torch.quint8)
    text = (
        "tensor([1., 2.], size=(2,), dtype=tritorch.quint8, "
        "quantization_scheme=tritorch.per_tensor_affine, scale=0.5, zero_point=2)"
    )
    assert " ".join(repr(q).split()) == text


def test_fake_quantize_on_the_gpu_and_twice_differentiated(device):
    x = torch.randn(4, 5, device=device, requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 9)
    plain = torch.fake_quantize_per_tensor_affine(x.detach().cpu(), 0.1, 3, 0, 9)
    close(y.detach().cpu(), plain)
    scale = torch.rand(5, device=device) + 0.1
    zero = torch.arange(5, device=device).int()
    by_channel = torch.fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 9)
    close(
        by_channel.detach().cpu(),
        torch.fake_quantize_per_channel_affine(x.detach().cpu(), scale.cpu(), zero.cpu(), 1, 0, 9),
    )
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    kept = (x.detach() / 0.1).round()
    mask = ((kept >= -3) & (kept <= 6)).float()
    close(g.detach(), 2 * y.detach() * mask)
    (g2,) = torch.autograd.grad(g.sum(), x)
    close(g2, 2 * mask)
    each = torch.vmap(lambda v: torch.fake_quantize_per_tensor_affine(v, 0.1, 3, 0, 9))(x)
    close(each.detach(), y.detach())


# ---- stored types --------------------------------------------------------------------------------


def test_stored_types_do_not_compute():
    narrow = torch.ones(2).to(torch.float8_e4m3fnuz)
    with pytest.raises(NotImplementedError, match="Float8_e4m3fnuz"):
        narrow + 1
    with pytest.raises(NotImplementedError, match="Int4"):
        torch.ones(2).to(torch.int4)
    for name in ("int4", "qint8", "complex32", "bits16"):
        kind = getattr(torch, name)
        assert pickle.loads(pickle.dumps(kind)) is kind is copy.deepcopy(kind)
    half = torch.tensor([1 + 2j]).chalf()
    assert pickle.loads(pickle.dumps(half)).item() == 1 + 2j
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    x.chalf().to(torch.complex64).abs().sum().backward()
    close(x.grad, torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    "name", ["complex32", "float8_e4m3fnuz", "float8_e8m0fnu", "bits8", "int4"]
)
def test_stored_types_are_saved(name, tmp_path):
    kind = getattr(torch, name)
    bits = torch.arange(8, dtype=torch.uint8) + 60
    torch.save({"x": bits.view(kind)}, tmp_path / "x.pt")
    found = torch.load(tmp_path / "x.pt")["x"]
    assert found.dtype is kind
    assert found.view(torch.uint8).equal(bits)


def test_stored_types_are_on_the_cpu(device):
    if device == "cuda":
        for name in ("complex32", "float8_e4m3fnuz", "int4"):
            with pytest.raises(NotImplementedError, match="not supported on the GPU"):
                torch.empty(2, dtype=getattr(torch, name)).cuda()
            with pytest.raises(NotImplementedError, match="not supported on the GPU"):
                torch.empty(2, dtype=getattr(torch, name), device="cuda")


# ---- futures -------------------------------------------------------------------------------------


def test_a_future_waits_for_another_thread():
    future = torch.futures.Future()
    seen = []
    later = future.then(lambda f: f.value() * 2)
    future.add_done_callback(lambda f: seen.append(f.value()))
    threading.Timer(0.02, future.set_result, [21]).start()
    assert later.wait() == 42
    assert seen == [21]


def test_futures_carry_exceptions(capsys):
    bad, good = torch.futures.Future(), torch.futures.Future()
    both = torch.futures.collect_all([bad, good])
    bad.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        both.wait()
    good.set_result(1)
    with pytest.raises(ValueError, match="no"):
        torch.futures.wait_all([good, bad])
    with pytest.raises(RuntimeError, match="running the callback: ZeroDivisionError"):
        good.then(lambda f: 1 // 0).wait()
    good.add_done_callback(lambda f: 1 // 0)
    assert "ZeroDivisionError" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="not complete"):
        torch.futures.Future().value()


# ---- files, versions, devices --------------------------------------------------------------------


def test_from_file_shares_its_memory(tmp_path):
    path = str(tmp_path / "numbers")
    x = torch.from_file(path, shared=True, size=4, dtype=torch.int32)
    x.copy_(torch.arange(4))
    again = torch.from_file(path, size=3, dtype=torch.int32)
    assert again.tolist() == [0, 1, 2]
    again[0] = 9  # private
    assert x.tolist() == [0, 1, 2, 3]


def test_serialization_helpers():
    helpers = torch.serialization
    module = types.SimpleNamespace(__version__="1.10.2", __name__="module")
    assert helpers.check_module_version_greater_or_equal(module, (1, 9))
    assert not helpers.check_module_version_greater_or_equal(module, (1, 11))
    module.__version__ = "x"
    with pytest.raises(RuntimeError, match="malformed"):
        helpers.check_module_version_greater_or_equal(module, (1, 9))
    with pytest.warns(UserWarning, match="malformed"):
        assert helpers.check_module_version_greater_or_equal(module, (1, 9), False)
    assert helpers.storage_to_tensor_type(torch.ones(1).half().storage()) is torch.HalfTensor
    assert helpers.normalize_storage_type(torch.LongStorage) is torch.LongStorage
    with helpers.mkdtemp() as folder:
        assert Path(folder).is_dir()
    assert not Path(folder).exists()
    with pytest.raises(RuntimeError, match="HPU"):
        helpers.validate_hpu_device("hpu")


def test_scaled_products(device):
    a, b = torch.randn(8, 256, device=device), torch.randn(256, 6, device=device)
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    kind = F.ScalingType
    rows = torch.rand(8, 2, device=device)
    blocks = torch.rand(2, 1, device=device)
    found = F.scaled_mm(
        a8, b8, rows, kind.BlockWise1x128, blocks, kind.BlockWise128x128,
        output_dtype=torch.float32,
    )  # fmt: skip
    spread = lambda s, dim: s.repeat_interleave(128, dim)
    expected = (a8.float() * spread(rows, 1)) @ (b8.float() * spread(blocks, 0))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    with pytest.raises(NotImplementedError, match="recipe"):
        F.scaled_mm(a8, b8, rows, kind.BlockWise1x32, blocks, kind.BlockWise1x32)
    with pytest.raises(ValueError, match="float8"):
        F.scaled_mm(a, b, rows, kind.TensorWise, rows, kind.TensorWise)
    w8 = torch.randn(2, 256, 6, device=device).to(torch.float8_e4m3fn)
    left, right = torch.rand(8, device=device), torch.rand(2, 6, device=device)
    ends = torch.tensor([3, 8], device=device).int()
    grouped = F.scaled_grouped_mm(
        a8, w8, left, kind.RowWise, right, kind.RowWise, offs=ends, output_dtype=torch.float32
    )
    scaled = a8.float() * left[:, None]
    parts = [scaled[:3] @ (w8[0].float() * right[0]), scaled[3:] @ (w8[1].float() * right[1])]
    torch.testing.assert_close(grouped, torch.cat(parts), rtol=1e-4, atol=1e-3)
    inner = torch.tensor([100, 256], device=device).int()
    sums = F.scaled_grouped_mm(
        a8, b8, torch.rand(16, device=device), kind.RowWise, torch.rand(12, device=device),
        kind.RowWise, offs=inner,
    )  # fmt: skip
    assert sums.shape == (2, 8, 6) and sums.dtype is torch.bfloat16


def test_waiting_for_the_gpu_by_mistake(device):
    if device == "cpu":
        return
    x = torch.ones(3, device=device)
    try:
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match="synchronizing"):
            x.sum().item()
        torch.cuda.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match="synchronizing"):
            assert x.sum().item() == 3
        assert torch.cuda.get_sync_debug_mode() == 1
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for mode in (3, "x"):
        with pytest.raises(RuntimeError, match="invalid value"):
            torch.cuda.set_sync_debug_mode(mode)


def test_what_is_not_there_says_so():
    for call in (
        torch.cuda.current_blas_handle, torch.cuda.current_solver_handle,
        lambda: torch.cuda.GreenContext.create(1),
        lambda: torch.cuda.CUDAPluggableAllocator("a", "b", "c"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="tritorch"):
            call()
    with pytest.raises(RuntimeError, match="not linked with support for ipu devices"):
        torch.ones(1).ipu()
    with pytest.raises(AssertionError):
        torch.ones(1).xpu()
    with pytest.raises(torch.AcceleratorError):
        torch.cuda.check_error(2)
    torch.cuda.check_error(0)
    with pytest.warns(UserWarning, match="volatile"):
        assert torch.ones(1).volatile is False


def test_dropout_by_channel_keeps_or_drops_whole_channels(device):
    x = torch.ones(8, 16, 5, device=device)
    for function in (torch.feature_dropout, torch.feature_alpha_dropout):
        y = function(x, 0.5, True)
        assert (y == y[:, :, :1]).all()
        assert len(y[:, :, 0].unique()) == 2
    y = x.clone()
    assert torch.feature_dropout_(y, 0.5, True) is y
    assert set(y.unique().tolist()) == {0.0, 2.0}
    out, kept = torch.native_dropout(x, 0.25, None)
    close(out, kept / 0.75)


def test_graphed_callables_replay_both_passes(device):
    if device == "cpu":
        return
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    model = model.cuda()
    plain = copy.deepcopy(model)
    sample = torch.randn(3, 4, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    assert graphed is model
    for _ in range(2):
        x = torch.randn(3, 4, device="cuda")
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        (graphed(ours) ** 2).sum().backward()
        (plain(theirs) ** 2).sum().backward()
        close(ours.grad, theirs.grad)
        close(model[0].weight.grad, plain[0].weight.grad)
    model.eval()  # not captured in this mode
    close(model(x), plain(x))
    a, b = torch.ones(2, device="cuda"), torch.ones(2, device="cuda", requires_grad=True)
    both = torch.cuda.make_graphed_callables(
        (lambda a, b: {"sum": a + b, "product": a * b}, torch.sin), ((a, b), (a.clone(),))
    )
    out = both[0](a * 2, (b.detach() * 3).requires_grad_())
    assert out["sum"].tolist() == [5, 5] and out["product"].tolist() == [6, 6]
    close(both[1](a * 2), (a * 2).sin())
    with pytest.raises(AssertionError, match="only Tensors"):
        torch.cuda.make_graphed_callables(torch.sin, (3,))
    hooked = torch.nn.Linear(2, 2).cuda()
    hooked.register_forward_hook(lambda *args: None)
    with pytest.raises(AssertionError, match="hooks"):
        torch.cuda.make_graphed_callables(hooked, (a,))


def test_kinds_of_memory():
    kinds = torch.utils.dlpack.DLDeviceType
    assert torch.ones(1).__dlpack_device__()[0] == kinds.kDLCPU
    assert repr(kinds.kDLCUDA) == "<DLDeviceType.kDLCUDA: 2>"


# ---- recurrent networks by their vendors' names, and packed weights ------------------------------


@pytest.mark.parametrize(
    ("number", "mode"), list(enumerate(("rnn_relu", "rnn_tanh", "lstm", "gru")))
)
def test_vendors_recurrent_networks_are_ours(number, mode, device):
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    make = lambda *shape: torch.randn(*shape, device=device)
    weights = [make(gates * 5, 3), make(gates * 5, 5), make(gates * 5), make(gates * 5)]
    second = [make(gates * 5, 5), make(gates * 5, 5), make(gates * 5), make(gates * 5)]
    x, h, c = make(4, 2, 3), make(2, 2, 5), make(2, 2, 5)
    ours = getattr(torch, mode)
    hx = (h, c) if mode == "lstm" else h
    cell = c if mode == "lstm" else None
    options = (number, 5, 2, False, 0.0, False, False)
    known = ours(x, hx, weights + second, True, 2, 0.0, False, False, False)
    found = torch.miopen_rnn(x, weights + second, 4, h, cell, *options, [], None)
    for a, b in zip(known, found):
        close(a, b)
    if mode != "lstm":
        assert found[2].numel() == 0
    close(found[4], torch.cat([w.reshape(-1) for w in weights + second]))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]))
    sizes = packed.batch_sizes
    known = ours(packed.data, sizes, hx, weights + second, True, 2, 0.0, False, False)
    found = torch.miopen_rnn(
        packed.data, weights + second, 4, h, cell, *options, sizes.tolist(), None
    )
    for a, b in zip(known, found):
        close(a, b)
    first = (h[:1], c[:1]) if mode == "lstm" else h[:1]
    known = ours(x, first, weights, True, 1, 0.0, False, False, False)
    found = torch.mkldnn_rnn_layer(
        x, *weights, h[0], c[0], False, [], number, 5, 1, True, False, False, False
    )
    for a, b in zip(known, found[: len(known)]):
        close(a.reshape(b.shape), b)


def test_vendors_recurrent_networks_refuse_the_wrong_states():
    x, h, w = torch.randn(4, 2, 3), torch.randn(1, 2, 5), [torch.randn(5, 3), torch.randn(5, 5)]
    with pytest.raises(ValueError, match="needs cx"):
        torch.miopen_rnn(x, w, 2, h, None, 2, 5, 1, False, 0.0, False, False, [], None)
    with pytest.raises(RuntimeError, match="non-LSTM"):
        torch.miopen_rnn(x, w, 2, h, h, 0, 5, 1, False, 0.0, False, False, [], None)
    layer = (x, *w, w[0][:, 0], w[0][:, 0], h[0], h[0], False)
    with pytest.raises(RuntimeError, match="all steps"):
        torch.mkldnn_rnn_layer(*layer, [2, 1, 1, 1], 0, 5, 1, True, False, False, False)


@pytest.mark.filterwarnings("ignore:fbgemm")
def test_packed_weights_can_be_saved(device, tmp_path):
    weight, x, bias = (torch.randn(*s, device=device) for s in ((5, 7), (2, 3, 7), (5,)))
    q, offsets, scale, zero = torch.fbgemm_linear_quantize_weight(weight)
    kept = torch.fbgemm_pack_quantized_matrix(q), torch.fbgemm_pack_gemm_matrix_fp16(weight)
    torch.save(kept, tmp_path / "packed")
    int8, half = torch.load(tmp_path / "packed", map_location=device)
    exact = x @ weight.t() + bias
    assert (torch.fbgemm_linear_fp16_weight(x, half, bias) - exact).abs().max() < 1e-2
    found = torch.fbgemm_linear_int8_weight(x, q, int8, offsets, scale, zero, bias)
    assert (found - exact).abs().max() < 0.3
    with pytest.raises(RuntimeError, match="packed as Half"):
        torch.fbgemm_linear_fp16_weight(x, int8, bias)
