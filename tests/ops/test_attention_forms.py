"""Attention's other forms: several lengths, windows, dropout; on every device."""

import numpy as np
import pytest

import tritorch as torch
from tritorch.nn.attention import varlen
from tritorch.ops.nn.attention import _composed

F = torch.nn.functional
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]


def packed(device, kind=torch.float64, heads=(4, 2), q_lengths=(5, 17, 1), k_lengths=(9, 17, 4)):
    torch.manual_seed(0)
    q = torch.randn(sum(q_lengths), heads[0], 8, dtype=kind)
    k, v = (torch.randn(sum(k_lengths), heads[1], 8, dtype=kind) for _ in range(2))
    starts = [
        torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32).to(device)
        for lengths in (q_lengths, k_lengths)
    ]
    tensors = [x.to(device).requires_grad_() for x in (q, k, v)]
    return (*tensors, *starts, max(q_lengths), max(k_lengths))


def one_by_one(q, k, v, q_starts, k_starts, behind, ahead):
    """By scaled_dot_product_attention, a sequence at a time."""
    parts = []
    ends = list(zip(q_starts.tolist(), k_starts.tolist()))
    for (a, c), (b, d) in zip(ends, ends[1:]):
        rows, keys = b - a, d - c
        place = torch.arange(rows)[:, None] + keys - rows
        col = torch.arange(keys)
        mask = torch.ones(rows, keys, dtype=torch.bool)
        if ahead >= 0:
            mask &= col <= place + ahead
        if behind >= 0:
            mask &= col >= place - behind
        x = [t.transpose(0, 1) for t in (q[a:b], k[c:d], v[c:d])]
        out = F.scaled_dot_product_attention(*x, mask.to(q.device), enable_gqa=True)
        parts.append(out.transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (3, 0), (2, 2), (0, -1)])
def test_several_lengths(device, window):
    q, k, v, *rest = packed(device)
    out = varlen.varlen_attn(q, k, v, *rest, window_size=window, enable_gqa=True)
    want = one_by_one(q, k, v, *rest[:2], *window)
    torch.testing.assert_close(out, want)
    g = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(out, (q, k, v), g.to(device))
    for x, y in zip(got, torch.autograd.grad(want, (q, k, v), g.to(device))):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("device", DEVICES)
def test_lse_and_out(device):
    q, k, v, *rest = packed(device)
    out, lse = varlen.varlen_attn(
        q, k, v, *rest, enable_gqa=True, return_aux=varlen.AuxRequest(lse=True)
    )
    assert lse.shape == q.shape[:2]
    scores = torch.einsum("lhe,she->hls", q[5:22] * 8**-0.5, k[9:26].repeat_interleave(2, 1))
    torch.testing.assert_close(lse[5:22], scores.logsumexp(-1).T)
    into = torch.empty_like(out)
    with torch.no_grad():
        assert varlen.varlen_attn_out(into, q, k, v, *rest, enable_gqa=True) is into
    torch.testing.assert_close(into, out.detach())


def test_second_derivatives():
    q, k, v, *rest = packed("cpu", q_lengths=(1, 2), k_lengths=(2, 2))
    run = lambda *x: varlen.varlen_attn(*x, *rest, window_size=(-1, 0), enable_gqa=True)
    assert torch.autograd.gradcheck(run, (q, k, v))
    assert torch.autograd.gradgradcheck(run, (q, k, v))


def test_what_is_refused():
    q, k, v, *rest = packed("cpu")
    with pytest.raises(ValueError, match="same number of heads"):
        varlen.varlen_attn(q, k, v, *rest)
    with pytest.raises(ValueError, match="multiple of kv heads"):
        varlen.varlen_attn(q[:, :3], k, v, *rest, enable_gqa=True)
    with pytest.raises(NotImplementedError, match="paged"):
        varlen.varlen_attn(q, k, v, rest[0], None, *rest[2:])
    with pytest.raises(ValueError, match="tokens, heads, head size"):
        varlen.varlen_attn(q[0], k, v, *rest)
    with pytest.raises(ValueError, match="vector of int32"):
        varlen.varlen_attn(q, k, v, rest[0].float(), *rest[1:])


@pytest.mark.device
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_is_drawn_again_backward(kind, causal):
    """The fused kernels against the composed definition with the weights that they drop."""
    torch.manual_seed(3)
    shape = (2, 4, 19, 16), (2, 2, 37, 16)
    q, k, v = (torch.randn(shape[i > 0], device="cuda", dtype=kind) for i in range(3))
    tensors = [x.requires_grad_() for x in (q, k, v)]
    generator = torch.cuda.default_generators[0]
    before = generator.get_state()
    out = F.scaled_dot_product_attention(*tensors, dropout_p=0.4, is_causal=causal, enable_gqa=True)
    assert out.grad_fn.name() == "ScaledDotProductFlashAttentionBackward0"
    generator.set_state(before)
    drop = (*generator.draw(2 * 4 * 19 * 40), 0.4)
    want = _composed(*tensors, None, causal, 0.25, *drop)
    tight = {"rtol": 1e-4, "atol": 1e-5} if kind is torch.float32 else {"rtol": 5e-2, "atol": 5e-2}
    torch.testing.assert_close(out, want, **tight)
    g = torch.randn_like(out)
    for x, y in zip(torch.autograd.grad(out, tensors, g), torch.autograd.grad(want, tensors, g)):
        torch.testing.assert_close(x, y, **tight)


@pytest.mark.device
def test_dropout_drops_with_its_probability():
    torch.manual_seed(0)
    length = 64
    q = torch.zeros(4, 4, length, 64, device="cuda")
    v = torch.eye(length, device="cuda").expand(4, 4, length, length)
    weights = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25)  # v shows the weights
    kept = (weights != 0).cpu().numpy()
    assert abs(kept.mean() - 0.75) < 4 * (0.25 * 0.75 / kept.size) ** 0.5
    assert np.allclose(weights.cpu().numpy()[kept], 1 / (length * 0.75))
    flat = kept.reshape(-1, length)
    assert len({row.tobytes() for row in flat}) == len(flat)  # no two rows share numbers
    again = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25)
    assert (again != weights).any()
