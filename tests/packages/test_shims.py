"""flash_attn and xformers by shims: their functions against the definition of attention."""

import subprocess
import sys

import pytest

import tritorch as torch
from tritorch.compat import shims
from tritorch.compat.shims import flash_attn as fa, xformers as xf

torch.manual_seed(0)


def plain(q, k, v, hidden=None, scale=None, cap=0.0, bias=0.0):
    """Attention of (batch, length, heads, size) by its definition, in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = cap * (scores / cap).tanh() if cap else scores
    scores = scores + bias
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1).nan_to_num() @ v).transpose(1, 2), scores.logsumexp(-1)


def outside(rows, keys, left=-1, right=-1):
    """Which keys a row does not see, counted from the ends."""
    away = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
    hidden = torch.zeros_like(away, dtype=torch.bool)
    hidden |= (away < -left) if left >= 0 else False
    return hidden | ((away > right) if right >= 0 else False)


def close(found, expected):
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("case", ["plain", "causal", "window", "cap", "alibi"])
def test_flash_attn(case, kv_heads, device):
    q = torch.randn(2, 5, 4, 16, device=device, requires_grad=True)
    k, v = (torch.randn(2, 7, kv_heads, 16, device=device, requires_grad=True) for _ in range(2))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=device)
    options, expected = {
        "plain": ({"softmax_scale": 0.3}, {"scale": 0.3}),
        "causal": ({"causal": True}, {"hidden": outside(5, 7, right=0)}),
        "window": ({"window_size": (2, 1)}, {"hidden": outside(5, 7, 2, 1)}),
        "cap": ({"softcap": 2.0, "causal": True}, {"cap": 2.0, "hidden": outside(5, 7, right=0)}),
        "alibi": (
            {"alibi_slopes": slopes},
            {
                "bias": -slopes[:, None, None].double().cpu()
                * (torch.arange(7) - torch.arange(5)[:, None] - 2).abs()
            },
        ),
    }[case]
    out, lse, _ = fa.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    mine = [x.detach().cpu().clone().requires_grad_() for x in (q, k, v)]
    right, sums = plain(*mine, **expected)
    close(out.cpu(), right)
    close(lse.cpu(), sums)
    weight = torch.randn_like(right)
    (out.cpu().double() * weight).sum().backward()
    (right * weight).sum().backward()
    for a, b in zip((q, k, v), mine):
        close(a.grad.cpu(), b.grad)


def test_flash_attn_forms():
    qkv = torch.randn(2, 6, 3, 2, 8)
    expected = fa.flash_attn_func(*qkv.unbind(2), causal=True)
    close(fa.flash_attn_qkvpacked_func(qkv, causal=True), expected)
    close(fa.flash_attn_kvpacked_func(qkv[:, :, 0], qkv[:, :, 1:], causal=True), expected)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    rows, indices, starts, longest, used = fa.unpad_input(qkv, mask)
    assert starts.tolist() == [0, 4, 10] and longest == 6 and used.tolist() == [4, 6]
    found = fa.flash_attn_varlen_qkvpacked_func(rows, starts, longest, causal=True)
    again = fa.pad_input(found, indices, 2, 6)
    close(again[0, :4], fa.flash_attn_func(*qkv[:1, :4].unbind(2), causal=True)[0])
    close(again[1], expected[1])
    assert not again[0, 4:].any()
    with pytest.raises(NotImplementedError, match="block_table"):
        fa.flash_attn_varlen_func(
            rows[:, 0], rows[:, 1], rows[:, 2], starts, starts, 6, 6, block_table=starts
        )


def test_flash_attn_with_a_cache():
    keys, values = torch.randn(2, 9, 2, 8), torch.randn(2, 9, 2, 8)
    cache = [keys.clone(), values.clone()]
    cache[0][0, 3:], cache[0][1, 5:], cache[1][0, 3:], cache[1][1, 5:] = 7.0, 7.0, 7.0, 7.0
    q, lengths = torch.randn(2, 2, 2, 8), torch.tensor([3, 5], dtype=torch.int32)
    new = [torch.stack([x[0, 3:5], x[1, 5:7]]) for x in (keys, values)]
    found = fa.flash_attn_with_kvcache(q, *cache, *new, cache_seqlens=lengths, causal=True)
    for i, n in enumerate((5, 7)):
        expected, _ = plain(
            q[i : i + 1], keys[i : i + 1, :n], values[i : i + 1, :n], outside(2, n, right=0)
        )
        close(found[i : i + 1], expected)
        assert cache[0][i, :n].equal(keys[i, :n])


def test_rotary_embeddings():
    x, angles = (
        torch.randn(1, 5, 2, 8),
        torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.5, 0.1, 0.01])),
    )
    turned = fa.apply_rotary_emb(x, angles.cos(), angles.sin())
    pairs = (
        torch.complex(x[..., :4], x[..., 4:])
        * torch.polar(torch.ones_like(angles), angles)[:, None]
    )
    close(turned, torch.cat([pairs.real, pairs.imag], -1))
    both = fa.apply_rotary_emb(x, angles.cos(), angles.sin(), interleaved=True)
    pairs = (
        torch.view_as_complex(x.reshape(1, 5, 2, 4, 2))
        * torch.polar(torch.ones_like(angles), angles)[:, None]
    )
    close(both, torch.view_as_real(pairs).flatten(-2))
    qkv = torch.randn(2, 5, 3, 2, 8)
    turned = fa.RotaryEmbedding(8)(qkv)
    assert turned[:, :, 2].equal(qkv[:, :, 2]) and turned[:, 0].allclose(qkv[:, 0])


def test_xformers():
    q, k, v = torch.randn(2, 5, 3, 8), torch.randn(2, 7, 3, 8), torch.randn(2, 7, 3, 8)
    close(xf.memory_efficient_attention(q, k, v, scale=0.2), plain(q, k, v, scale=0.2)[0])
    first = torch.arange(7) > torch.arange(5)[:, None]
    close(
        xf.memory_efficient_attention(q, k, v, xf.LowerTriangularMask()), plain(q, k, v, first)[0]
    )
    last = xf.LowerTriangularFromBottomRightMask()
    close(xf.memory_efficient_attention(q, k, v, last), plain(q, k, v, outside(5, 7, right=0))[0])
    local = xf.LocalAttentionFromBottomRightMask(1, 1)
    close(xf.memory_efficient_attention(q, k, v, local), plain(q, k, v, outside(5, 7, 1, 1))[0])
    bias = torch.randn(2, 3, 5, 7)
    out, lse = xf.memory_efficient_attention_forward_requires_grad(q, k, v, bias)
    expected, sums = plain(q, k, v, bias=bias)
    close(out, expected)
    close(lse, sums)
    single = xf.memory_efficient_attention(q[:, :, 0], k[:, :, 0], v[:, :, 0])
    close(single, plain(q[:, :, :1], k[:, :, :1], v[:, :, :1])[0][:, :, 0])
    parts = [torch.randn(1, 4, 3, 8), torch.randn(2, 2, 3, 8)]
    for make in (lambda m: m, lambda m: m.make_causal(), lambda m: m.make_local_attention(2)):
        mask, rows = xf.BlockDiagonalMask.from_tensor_list(parts)
        mask = make(mask)
        found = xf.memory_efficient_attention(rows, rows, rows, mask)
        close(found, plain(rows, rows, rows, mask.materialize((8, 8)) == float("-inf"))[0])
        assert [x.shape for x in mask.split(found)] == [x.shape for x in parts]
    with pytest.raises(ValueError, match="Invalid shape for query"):
        xf.memory_efficient_attention(q[0, 0], k[0, 0], v[0, 0])


def test_shims_are_there_on_request():
    code = """
import importlib.metadata, importlib.util, sys
import tritorch
assert importlib.util.find_spec("flash_attn") is None
tritorch.shims.install("flash_attn")
tritorch.as_torch()
import torch
from flash_attn import flash_attn_func
from flash_attn.bert_padding import unpad_input
from flash_attn.layers.rotary import apply_rotary_emb
assert importlib.metadata.version("flash_attn") == sys.modules["flash_attn"].__version__
assert flash_attn_func(*[torch.ones(1, 2, 1, 4)] * 3).eq(1).all()
try:
    import flash_attn.models.gpt
except ModuleNotFoundError as error:
    assert "does not serve it" in str(error)
tritorch.shims.install()
import xformers.ops as xops
ones = [torch.ones(1, 2, 1, 4)] * 3
assert xops.memory_efficient_attention(*ones, attn_bias=xops.LowerTriangularMask()).eq(1).all()
try:
    tritorch.shims.install("apex")
except ValueError as error:
    assert "flash_attn, xformers" in str(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr


def test_served_libraries(tmp_path):
    """A library is known by the schemas in it, whatever its file is called."""

    def library(name, *schemas):
        path = tmp_path / name
        path.write_bytes(b"\x7fELF\0" + b"\0".join(x.encode() for x in schemas) + b"\0")
        return str(path)

    align = "roi_align(Tensor input, Tensor rois, float spatial_scale) -> Tensor"
    for name in ("_C.so", "_C_stable.so"):
        assert shims.served(library(name, "nms()", align)) == "tritorch.compat.shims.torchvision"
    decode = "decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor"
    image = library("image_stable.so", decode)
    assert shims.served(image) == "tritorch.compat.shims.torchvision_image"
    audio = library("_torchaudio.so", "is_align_available() -> bool")
    assert shims.served(audio) == "tritorch.compat.shims.torchaudio"
    assert shims.served(library("other.so", "align(Tensor x) -> Tensor")) is None
    assert shims.served(str(tmp_path / "none.so")) is None
