"""nn.attention.flex_attention against NumPy, block masks against what PyTorch gives."""

import math
import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch.nn.attention import _flex, flex_attention as flex
from tritorch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((4, 80))
WORDS = np.sort(RNG.integers(0, 3, (2, 40)), axis=1)


def tensors(*shape, kind=np.float64, grad=False):
    return torch.tensor(RNG.standard_normal(shape).astype(kind), requires_grad=grad)


def causal(b, h, q, k):
    return q >= k


# A score_mod or mask_mod, and what it is in NumPy of places that broadcast.
SCORES = {
    "alibi": (lambda s, b, h, q, k: s + (k - q) * 0.5 ** (h + 1), None),
    "softcap": (
        lambda s, b, h, q, k: torch.tanh(s / 2) * 2,
        lambda s, b, h, q, k: np.tanh(s / 2) * 2,
    ),
    "table": (
        lambda s, b, h, q, k: s + torch.tensor(TABLE)[h, q - k + 40],
        lambda s, b, h, q, k: s + TABLE[h, q - k + 40],
    ),
    "chain": (
        lambda s, b, h, q, k: s * torch.tensor(TABLE)[h][q],
        lambda s, b, h, q, k: s * TABLE[h, q],
    ),
}
MASKS = {
    "causal": causal,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 7),
    "some rows see nothing": lambda b, h, q, k: (q % 3 != 0) & (k < 20),
    "heads differ": lambda b, h, q, k: (q >= k) | (h == 2),
    "prefix": (
        or_masks(lambda b, h, q, k: k < 5, and_masks(causal, lambda b, h, q, k: q - k < 9)),
        lambda b, h, q, k: (k < 5) | ((q >= k) & (q - k < 9)),
    ),
}
DOCUMENT = (
    lambda b, h, q, k: torch.tensor(WORDS)[b, q] == torch.tensor(WORDS)[b, k],
    lambda b, h, q, k: WORDS[b, q] == WORDS[b, k],
)


def expected(q, k, v, score, mask, scale):
    """out, lse and the largest scores by NumPy."""
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * scale
    places = np.ogrid[tuple(map(slice, s.shape))]
    s = s if score is None else score(s, *places)
    s = np.where(True if mask is None else mask(*places), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total) + np.where(np.isinf(top), 0, top)
    return p / np.where(total == 0, 1, total) @ v, lse[..., 0], top[..., 0]


def compare(score=None, mask=None, heads=(4, 4), lengths=(33, 40), block=8, scale=0.3):
    score, np_score = score if isinstance(score, tuple) else (score, score)
    mask, np_mask = mask if isinstance(mask, tuple) else (mask, mask)
    q, k, v = (tensors(2, h, n, 6) for h, n in zip((*heads, heads[1]), (*lengths, lengths[1])))
    lists = mask and create_block_mask(mask, 2, heads[0], *lengths, "cpu", block)
    out, aux = flex_attention(
        q, k, v, score, lists, scale, heads[0] != heads[1], return_aux=AuxRequest(True, True)
    )
    wanted = expected(q, k, v, np_score or score, np_mask, scale)
    for x, y in zip((out, aux.lse, aux.max_scores), wanted):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    compare(SCORES[name])
    compare(SCORES[name], causal, heads=(4, 2))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [8, (16, 4), 128])
def test_masks(name, block):
    compare(None, MASKS[name], block=block)


@pytest.mark.parametrize("lengths", [(1, 40), (40, 1), (5, 3)])
def test_lengths(lengths):
    compare(SCORES["softcap"], DOCUMENT, lengths=lengths)
    compare(None, None, lengths=lengths)


def test_blocks_that_nobody_sees_are_not_computed(monkeypatch):
    monkeypatch.setattr(_flex, "_FEW_SCORES", 0)
    computed = []
    whole = _flex._scores
    monkeypatch.setattr(
        _flex, "_scores", lambda *args: (computed.append(whole(*args)), computed[-1])[1]
    )
    for name in MASKS:
        compare(SCORES["softcap"], MASKS[name])
    computed.clear()
    compare(None, MASKS["window"])
    assert [x.plain.shape[3] for x in computed] == [8, 16, 16, 16, 16]


def test_gradients_reach_what_is_captured():
    q, k, v = (tensors(1, 2, n, 2, grad=True) for n in (2, 3, 3))
    table, unit = tensors(2, 2, 3, grad=True), tensors(grad=True)
    lists = create_block_mask(lambda b, h, q, k: q >= k - 1, None, None, 2, 3, "cpu", 2)

    def run(q, k, v, table, unit):
        score = lambda s, b, h, i, j: torch.sin(s * unit) + (table * 2)[h, i, j]
        out, aux = flex_attention(q, k, v, score, lists, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    assert torch.autograd.gradcheck(run, (q, k, v, table, unit))
    assert torch.autograd.gradgradcheck(run, (q, k, v, table, unit))


def test_results_lie_as_queries_do():
    q = tensors(2, 7, 3, 4).transpose(1, 2)
    assert flex_attention(q, q, q).stride() == q.stride()
    q = tensors(2, 3, 4, 7).transpose(2, 3)
    assert flex_attention(q, q, q).stride() == (84, 28, 4, 1)


def test_narrow_types_compute_in_float32():
    q, k, v = (tensors(2, 4, 9, 8).to(torch.bfloat16) for _ in range(3))
    seen = []
    out = flex_attention(q, k, v, lambda s, b, h, i, j: (seen.append((s.dtype, i.dtype)), s)[1])
    assert seen[-1] == (torch.float32, torch.int64) and out.dtype is torch.bfloat16
    with torch.autocast("cpu"):
        assert flex_attention(q.float(), k, v).dtype is torch.bfloat16


def test_under_vmap_and_without_data():
    q = tensors(3, 2, 2, 5, 4)
    each = torch.vmap(lambda q: flex_attention(q, q, q, SCORES["softcap"][0]))(q)
    for one, x in zip(each, q):
        torch.testing.assert_close(one, flex_attention(x, x, x, SCORES["softcap"][0]))
    q = torch.empty(2, 2, 5, 4, device="meta")
    assert flex_attention(q, q, q, SCORES["softcap"][0]).shape == (2, 2, 5, 4)


# ---- block masks, as PyTorch 2.13 has them -------------------------------------------------------


def some(b, h, q, k):
    return (q >= k) & ((q - k < 6) | (h == 1))


@pytest.fixture
def lists():
    return create_block_mask(some, 1, 2, 20, 24, "cpu", (4, 8))


REPR = """BlockMask(
    kv_num_blocks=torch.Size([1, 2, 5]),
    kv_indices=torch.Size([1, 2, 5, 3]),
    full_kv_num_blocks=torch.Size([1, 2, 5]),
    full_kv_indices=torch.Size([1, 2, 5, 3]),
    q_num_blocks=torch.Size([1, 2, 3]),
    q_indices=torch.Size([1, 2, 3, 5]),
    full_q_num_blocks=torch.Size([1, 2, 3]),
    full_q_indices=torch.Size([1, 2, 3, 5]),
    BLOCK_SIZE=(4, 8),
    shape=(1, 2, 20, 24),
    sparsity=43.33%,
    mask_mod=some
)"""
TEXT = """BlockMask(shape=(1, 2, 20, 24), sparsity=43.33%, \n(0, 0)
██    \n██    \n████  \n████  \n  ████

(0, 1)
██    \n██    \n████  \n████  \n██████
)"""


def test_what_a_block_mask_shows_of_itself(lists):
    assert repr(lists).replace("tritorch.Size", "torch.Size") == REPR
    assert str(lists) == TEXT
    coarse = lists.to_string(grid_size=2, limit=1)
    assert coarse.startswith("(0, 0)\n░░  \n░░░░\n\n...\nTo print out more") and "limit=N" in coarse
    assert lists.numel() == 960 and lists.sparsity() == pytest.approx(43.333333)


def test_lists_of_a_block_mask(lists):
    lengths, counts, indices, full, full_indices, rows, *_ = lists.as_tuple(flatten=False)
    assert lengths == (20, 24)
    assert counts.tolist() == [[[1, 1, 2, 2, 2], [1, 1, 1, 1, 1]]]
    assert full.tolist() == [[[0, 0, 0, 0, 0], [0, 0, 1, 1, 2]]]
    assert indices[0, :, 4].tolist() == [[1, 2, 0], [2, 0, 1]]
    assert full_indices[0, 1].tolist() == [[0, 1, 2]] * 5
    assert rows.tolist() == [[[4, 3, 1], [2, 2, 1]]]
    assert lists.q_indices.tolist() == [
        [[[0, 1, 2, 3, 4], [2, 3, 4, 0, 1], [4, 0, 1, 2, 3]],
         [[0, 1, 2, 3, 4], [2, 3, 0, 1, 4], [4, 0, 1, 2, 3]]]
    ]  # fmt: skip
    flat = lists.as_tuple()
    assert len(flat) == 17 and flat[:2] == (20, 24) and flat[14:] == (4, 8, some)
    assert flat[10:14] == (None,) * 4
    assert {x.dtype for x in flat[2:10]} == {torch.int32}
    mask = create_mask(some, 1, 2, 20, 24, "cpu")
    blocks = mask.numpy().reshape(2, 5, 4, 3, 8).any((2, 4))
    np.testing.assert_array_equal(lists.to_dense()[0].numpy(), blocks)
    together = create_block_mask(some, 1, 2, 20, 24, "cpu", (4, 8), separate_full_blocks=False)
    assert together.full_kv_num_blocks is None
    np.testing.assert_array_equal(together.to_dense()[0].numpy(), blocks)


def test_parts_of_a_block_mask(lists):
    assert lists[0, 1].shape == (1, 1, 20, 24)
    part = lists[:, -1, torch.tensor([2, 4])]
    assert part.kv_num_blocks.tolist() == [[[1, 1]]]
    assert part.full_kv_num_blocks.tolist() == [[[1, 2]]]
    q = tensors(1, 2, 20, 4)
    with pytest.raises(RuntimeError, match="sliced BlockMask"):
        flex_attention(q, tensors(1, 2, 24, 4), tensors(1, 2, 24, 4), block_mask=part)
    with pytest.raises(RuntimeError, match="Use base_mask"):
        part.mask_mod(0, 0, 0, 0)
    cut = lists._adjust(8, 16)
    assert cut.shape == (1, 2, 8, 16) and cut.kv_num_blocks.tolist() == [[[1, 1], [1, 1]]]
    moved = lists.to("meta")
    assert moved.kv_indices.device.type == "meta" and moved.mask_mod is some
    leaves, context = lists._flatten()
    again = BlockMask._unflatten(leaves, context)
    assert again.as_tuple()[10:] == lists.as_tuple()[10:] and again.q_indices is lists.q_indices


def test_order_of_additions():
    made = [
        create_block_mask(
            some, 1, 2, 20, 24, "cpu", (4, 8), compute_dq_write_order=True, dq_kv_order=order
        )
        for order in (True, False)
    ]
    assert made[0].dq_write_order[0, 0].tolist() == [
        [0, 0, 1, 1, 1], [0, 0, 1, -1, -1], [0, -1, -1, -1, -1]]  # fmt: skip
    assert made[1].dq_write_order[0, 1].tolist() == [
        [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [2, 1, 1, 2, 2]]  # fmt: skip
    assert made[1].dq_write_order_full[0, 0].tolist()[0] == [0, 0, 0, 0, 0]
    assert made[0].dq_kv_order_spt is True
    assert made[1][:, 1:].dq_write_order.tolist() == made[1].dq_write_order[:, 1:].tolist()


def test_lists_alone_choose_blocks():
    counts = torch.tensor([[[1, 2]]], dtype=torch.int32)
    indices = torch.tensor([[[[1, 0], [1, 0]]]], dtype=torch.int32)
    lists = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=4)
    assert lists.shape == (1, 1, 8, 8) and lists.mask_mod is noop_mask
    q = tensors(1, 1, 8, 4)
    by_hand = expected(q, q, q, None, lambda b, h, i, j: (i >= 4) | (j >= 4), 0.5)
    np.testing.assert_allclose(flex_attention(q, q, q, block_mask=lists).numpy(), by_hand[0])


Q = torch.zeros(2, 4, 8, 4)
REFUSED = [
    (lambda: flex_attention(Q, Q[:, :2], Q[:, :2]), ValueError, "Try setting enable_gqa=True"),
    (lambda: flex_attention(Q, Q[:, :3], Q[:, :3], enable_gqa=True), ValueError, "multiple of kv"),
    (lambda: flex_attention(Q, Q[..., :3], Q), ValueError, "E=4 and E=3"),
    (lambda: flex_attention(Q[0], Q[0], Q[0]), NotImplementedError, "must be 4D"),
    (lambda: flex_attention(Q, Q[:1], Q[:1]), ValueError, "non-none block_mask"),
    (lambda: flex_attention(Q, Q, Q, kernel_options={"BACKEND": "X"}), ValueError, "Invalid BACK"),
    (
        lambda: flex_attention(Q, Q, Q, return_lse=True, return_aux=AuxRequest()),
        ValueError, "Cannot specify both",
    ),
    (
        lambda: flex_attention(Q, Q, Q, block_mask=create_block_mask(causal, 1, 1, 4, 8, "cpu")),
        ValueError, "smaller length",
    ),
    (
        lambda: flex_attention(Q, Q, Q, block_mask=create_block_mask(causal, 1, 1, 9, 8, "cpu")),
        ValueError, "_adjust",
    ),
    (
        lambda: create_block_mask(lambda s, b, h, q, k: s, 1, 1, 8, 8, "cpu"),
        AssertionError, "mask_mod fun",
    ),
    (lambda: create_mask(lambda b: b, 1, 1, 8, 8, "cpu"), AssertionError, "Expected 4 or 5"),
    (lambda: or_masks(causal, 3), RuntimeError, "should be callable"),
    (lambda: flex_attention(Q.to("meta"), Q, Q), ValueError, "same device type"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "error", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_refusals(run, error, words):
    with pytest.raises(error, match=words):
        run()


def test_lists_without_rows_have_no_gradient():
    made = create_block_mask(causal, 1, 1, 8, 8, "cpu", 4)
    lists = BlockMask.from_kv_blocks(
        *made.as_tuple()[2:6], BLOCK_SIZE=4, mask_mod=causal, compute_q_blocks=False
    )
    with pytest.raises(RuntimeError, match="q_indices is None"):
        flex_attention(Q.clone().requires_grad_(), Q, Q, block_mask=lists)
    assert flex_attention(Q, Q, Q, block_mask=lists).shape == Q.shape


def test_what_was_called_return_lse():
    flex._WARNINGS_SHOWN.clear()
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        _, lse = flex_attention(Q, Q, Q, return_lse=True)
    assert lse.shape == Q.shape[:3] and float(lse.max()) == pytest.approx(math.log(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flex_attention(Q, Q, Q, return_lse=True)


def test_keys_that_all_batches_share():
    q, k = tensors(2, 4, 8, 4), tensors(1, 4, 8, 4, grad=True)
    lists = create_block_mask(lambda b, h, i, j: i >= j + b, 2, None, 8, 8, "cpu", 4)
    out = flex_attention(q, k, k, block_mask=lists)
    both = k.detach().expand(2, -1, -1, -1).clone().requires_grad_()
    again = flex_attention(q, both, both, block_mask=lists)
    torch.testing.assert_close(out, again)
    (out * 2).sum().backward()
    (again * 2).sum().backward()
    torch.testing.assert_close(k.grad, both.grad.sum(0, keepdim=True))
