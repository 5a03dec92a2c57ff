"""nn.functional and nn.attention beyond what modules reach."""

import itertools

import numpy as np
import pytest

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F
from tritorch.nn.attention import SDPBackend, sdpa_kernel
from tritorch.ops.loss.linear_cross_entropy import _Chunked
from tritorch.ops.nn import attention
from tritorch.ops.record.backends import backend


def numbers(*shape, seed=0, grad=False):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=grad)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_chunks_of_tokens_are_the_whole(reduction, rows):
    target = torch.tensor([0, 4, -100, 2, 1, 3, 3])
    weight = numbers(5, seed=3).abs()
    results = []
    for options in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=rows)):
        x, w, b = numbers(7, 3, grad=True), numbers(5, 3, seed=1, grad=True), numbers(5, grad=True)
        loss = F.linear_cross_entropy(
            x, w, target, linear_bias=b, weight=weight, reduction=reduction, options=options
        )
        (loss * numbers(*loss.shape, seed=5)).sum().backward()
        results.append([t.detach().numpy() for t in (loss, x.grad, w.grad, b.grad)])
    for whole, chunked in zip(*results):
        np.testing.assert_allclose(chunked, whole, rtol=1e-10, atol=1e-12)


def test_no_more_logits_than_those_of_a_chunk(monkeypatch):
    sizes, family = [], backend("cpu", "loss")
    original = family.cross_entropy_in_place

    def counted(logits, *rest):
        sizes.append(logits.size)
        return original(logits, *rest)

    monkeypatch.setattr(family, "cross_entropy_in_place", counted)
    x, w = numbers(64, 2, grad=True), numbers(9, 2, seed=1, grad=True)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    loss = F.linear_cross_entropy(x, w, torch.zeros(64, dtype=torch.int64), options=options)
    assert len(sizes) and max(sizes) == 4 * 9
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward called twice"):
        loss.backward()
    assert issubclass(_Chunked, torch.autograd.Function)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_chunks_of_no_rows(reduction):
    x, w = numbers(0, 3, grad=True), numbers(5, 3, grad=True)
    loss = F.linear_cross_entropy(
        x, w, torch.zeros(0, dtype=torch.int64), reduction=reduction,
        options=nn.LinearCrossEntropyOptions(),
    )  # fmt: skip
    loss.backward()
    assert loss.isnan() if reduction == "mean" else loss == 0
    assert x.grad.shape == (0, 3) and not w.grad.any()


def test_chunks_on_a_gpu_take_a_third_of_the_memory():
    device, kind = torch.device("cuda"), torch.bfloat16
    for rows, features, policy in (
        (4096, 768, "balanced"), (8192, 768, "balanced"), (8192, 4096, "compact"),
        (16384, 4096, "compact"), (32768, 4096, "balanced"),
    ):  # fmt: skip
        chosen = nn.LinearCrossEntropyOptions()._adjust(rows, features, 50304, kind, device)
        size = chosen.batch_chunk_size
        assert chosen.acc_policy == policy and 256 <= size <= 2048 and size % 128 == 0
        width = 2 if policy == "balanced" else 1
        held = width * features + max(size, features if width == 2 else 0)
        assert 3 * held <= 2 * rows
    small = nn.LinearCrossEntropyOptions()._adjust(7, 16, 50, kind, device)
    assert small.batch_chunk_size == 7 and small.acc_policy == "compact"


def test_options_of_chunks():
    options = nn.LinearCrossEntropyOptions
    chosen = options()._adjust(1000, 64, 32000, torch.float32, torch.device("cpu"))
    assert chosen.batch_chunk_size == 1 and chosen.acc_policy == "compact"
    chosen = options(chunking_method="aspect_ratio")._adjust(4096, 512, 2048, torch.float32)
    assert chosen.batch_chunk_size == 1024
    for bad in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0},
                {"acc_dtype": torch.int8}):  # fmt: skip
        with pytest.raises(ValueError, match=r"invalid|must be"):
            options(**bad)
    with pytest.raises(ValueError, match="give different chunk sizes"):
        options(batch_chunk_size=2, chunking_method="aspect_ratio")._adjust(8, 4, 8, torch.float32)
    with pytest.warns(UserWarning, match="``options`` ignored"):
        F.linear_cross_entropy(numbers(2, 3), numbers(4, 3), torch.tensor([0, 1]),
                               label_smoothing=0.1, options=options())  # fmt: skip


def test_kinds_of_attention_are_steered(monkeypatch):
    ran = []
    monkeypatch.setattr(attention, "_run_fused", lambda *a: ran.append("fused"))
    monkeypatch.setattr(attention, "_composed", lambda *a, **k: ran.append("math"))
    q = numbers(1, 2, 3, 4)
    F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(q, q, q)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        F.scaled_dot_product_attention(q, q, q)
    assert ran == ["fused", "math", "fused", "math", "fused"]
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q, q, q)
    with (
        sdpa_kernel([SDPBackend.FLASH_ATTENTION]),
        pytest.warns(UserWarning, match="Fused attention is not used"),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    assert attention.allowed() == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("p", [0, 1, 2, 2.5, float("inf")])
def test_distances(p):
    x, y = numbers(4, 3), numbers(30, 3, seed=1)
    norm = lambda d: np.linalg.norm(d, p)
    pairs = [norm(a - b) for a, b in itertools.combinations(x.numpy(), 2)]
    np.testing.assert_allclose(F.pdist(x, p).numpy(), pairs)
    whole = [[norm(a - b) for b in y.numpy()] for a in x.numpy()]
    np.testing.assert_allclose(torch.cdist(x, y, p).numpy(), whole)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        np.testing.assert_allclose(torch.cdist(x, y, p, mode).numpy(), whole)
    near = numbers(2, 3, grad=True)
    torch.cdist(near, near, p, "use_mm_for_euclid_dist").sum().backward()
    assert torch.isfinite(near.grad).all()


def test_groups_of_products():
    a, b, ends = numbers(6, 3), numbers(2, 3, 5), torch.tensor([2, 5], dtype=torch.int32)
    want = torch.cat([a[:2] @ b[0], a[2:5] @ b[1], torch.zeros(1, 5, dtype=torch.float64)])
    assert torch.allclose(F.grouped_mm(a, b, offs=ends), want)
    assert torch.allclose(F.grouped_mm(b, b.mT), b @ b.mT)
    assert torch.allclose(F.grouped_mm(a.mT, a, offs=ends)[1], a[2:5].mT @ a[2:5])
    square = numbers(5, 5)
    assert torch.allclose(F.grouped_mm(b, square, offs=ends)[:, 2:], b[1] @ square[:, 2:])
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        F.grouped_mm(a, b)


def test_time_batch_channels():
    x, w, b = numbers(7, 2, 3), numbers(3, 3, 4, seed=1), numbers(4)
    out = F.conv_tbc(x, w, b, 1)
    want = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1)
    assert torch.allclose(out, want.permute(2, 0, 1))


def test_a_separate_projection_and_static_keys():
    x, w = numbers(3, 2, 4), [numbers(4, 4, seed=i) for i in range(3)]
    out = F.multi_head_attention_forward(
        x, x, x, 4, 2, None, None, None, None, False, 0.0, torch.eye(4, dtype=torch.float64), None,
        use_separate_proj_weight=True, q_proj_weight=w[0], k_proj_weight=w[1], v_proj_weight=w[2],
    )[0]  # fmt: skip
    packed = F.multi_head_attention_forward(
        x, x, x, 4, 2, torch.cat(w), None, None, None, False, 0.0,
        torch.eye(4, dtype=torch.float64), None,
    )[0]  # fmt: skip
    assert torch.allclose(out, packed)
    keys = numbers(4, 5, 2)
    static, weights = F.multi_head_attention_forward(
        x, x, x, 4, 2, torch.cat(w), None, None, None, False, 0.0,
        torch.eye(4, dtype=torch.float64), None, static_k=keys, static_v=keys,
    )  # fmt: skip
    assert static.shape == x.shape and weights.shape == (2, 3, 5)
    with pytest.raises(AssertionError, match=r"expecting static_k.size\(0\) of 4, but got 2"):
        F.multi_head_attention_forward(x, x, x, 4, 2, torch.cat(w), None, None, None, False, 0.0,
                                       w[0], None, static_k=keys[:2])  # fmt: skip


def test_affine_grids_and_unfinished_names():
    theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    grid = F.affine_grid(theta, (1, 1, 2, 4), align_corners=True)
    np.testing.assert_allclose(grid[0, 0, :, 0].numpy(), np.linspace(-1, 1, 4), rtol=1e-6)
    image = numbers(1, 2, 2, 4).float()
    assert torch.allclose(F.grid_sample(image, grid, align_corners=True), image, atol=1e-6)
    with pytest.raises(ValueError, match="Expected a batch of 2D affine matrices"):
        F.affine_grid(theta[:, :1], (1, 1, 2, 4), align_corners=True)
    assert F.BroadcastingList2[int] is None
    either = F.boolean_dispatch("flag", 1, False, lambda x, flag: "yes", lambda x, flag=0: "no",
                                None, "either")  # fmt: skip
    assert (either(1), either(1, True), either(1, flag=True)) == ("no", "yes", "yes")


def test_data_parallel_runs_on_one_device():
    net = nn.DataParallel(nn.Linear(2, 3), device_ids=[0])
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(torch.ones(1, 2)).shape == (1, 3)
    if net.device_ids:
        assert net(torch.ones(1, 2)).is_cuda and net.module.weight.is_cuda
    assert nn.factory_kwargs({"dtype": torch.float64}) == {"dtype": torch.float64}
    with pytest.raises(TypeError, match="specified twice"):
        nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})


@pytest.mark.device
def test_what_computes_a_convolution():
    from tritorch.compat.native import names as native

    x, wide = torch.ones(1, 4, 5, 5, device="cuda"), torch.ones(8, 4, 3, 3, device="cuda")
    given = (None, [1, 1], [0, 0], [1, 1], False, [0, 0])
    choose = native._select_conv_backend
    assert choose(x, wide, *given, 1) is native._ConvBackend.Overrideable
    assert choose(x, wide[:4, :1], *given, 4) is native._ConvBackend.CudaDepthwise2d
    assert choose(x.cpu(), wide.cpu(), *given, 1) is native._ConvBackend.Slow2d


def test_causal_masks_of_two_lengths():
    from tritorch.nn.attention import bias

    q, k = numbers(2, 3, 4, 8), numbers(2, 3, 6, 8, seed=1)
    for made, shift in ((bias.causal_upper_left(4, 6), 0), (bias.causal_lower_right(4, 6), 2)):
        mask = torch.ones(4, 6, dtype=torch.bool).tril(shift)
        assert repr(made) == repr(mask) and made._materialize().equal(mask)
        expected = F.scaled_dot_product_attention(q, k, k, mask)
        torch.testing.assert_close(F.scaled_dot_product_attention(q, k, k, made), expected)
        scaled = F.scaled_dot_product_attention(q, k, k, attn_mask=made, scale=0.3)
        again = F.scaled_dot_product_attention(q, k, k, attn_mask=mask, scale=0.3)
        torch.testing.assert_close(scaled, again)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        F.scaled_dot_product_attention(q, k, k, made, is_causal=True)
    with pytest.warns(UserWarning, match="will produce NaNs"):
        bias.causal_lower_right(6, 4)
    with pytest.raises(AssertionError, match="must be a CausalVariant"):
        bias.CausalBias(1, 2, 3)
