"""Flex attention by kernels that a program's functions are a part of, against its definition."""

import numpy as np
import pytest

import tritorch as torch
from tests.ops.gpu_reference import FLOATS
from tritorch.arrays.written import NotWritable
from tritorch.gpu.nn import flex as launches
from tritorch.nn.attention import _flex
from tritorch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    _create_empty_block_mask,
    and_masks,
    create_block_mask,
    flex_attention,
    or_masks,
)

pytestmark = pytest.mark.device
RNG = np.random.default_rng(0)


def numbers(*shape, kind=np.float32):
    return torch.from_numpy(RNG.standard_normal(shape)).to(getattr(torch, np.dtype(kind).name))


def causal(b, h, q, k):
    return q >= k


class Tensors:
    """What functions load from, on a device."""

    def __init__(self, device):
        rng = np.random.default_rng(3)
        put = lambda x: torch.tensor(x).to(device)
        self.table = put(rng.standard_normal((4, 120)).astype(np.float32))
        self.narrow = put(rng.standard_normal((90, 60)).astype(np.float32)).bfloat16().T
        self.words = put(np.sort(rng.integers(0, 3, (2, 90)), axis=1))
        self.flags = put(rng.random((50, 70)) > 0.3)
        self.unit = put(np.float32(1.5))
        self.lengths = put(np.array([60, 33], np.int16))


# Each is a function of what it loads from, which gives a score_mod and a mask_mod.
PROGRAMS = {
    "nothing": lambda t: (None, None),
    "causal": lambda t: (None, causal),
    "alibi": lambda t: (lambda s, b, h, q, k: s + (k - q) * torch.exp2(-(h + 1.0)), causal),
    "softcap": lambda t: (lambda s, b, h, q, k: torch.tanh(s / 2.0) * 2.0, causal),
    "table": lambda t: (lambda s, b, h, q, k: s * t.unit + t.table[h, q - k + 60], None),
    "chain": lambda t: (lambda s, b, h, q, k: s + t.table[h][q] * t.narrow[q][k], causal),
    "from the end": lambda t: (lambda s, b, h, q, k: s + t.table[-1, k - 71], None),
    "documents": lambda t: (None, lambda b, h, q, k: t.words[b, q] == t.words[b, k]),
    "lengths": lambda t: (None, lambda b, h, q, k: k < t.lengths[b]),
    "flags": lambda t: (None, lambda b, h, q, k: t.flags[q, k] & (h != 1)),
    "rows that see nothing": lambda t: (None, lambda b, h, q, k: (q % 3 != 0) & (k < 50)),
    "joined": lambda t: (
        lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
        or_masks(lambda b, h, q, k: k < 10, and_masks(causal, lambda b, h, q, k: q - k <= 30)),
    ),
    "squares": lambda t: (lambda s, b, h, q, k: s**2 - 0.1 * s**3 + abs(s) ** 0.5, None),
    "fused functions": lambda t: (
        lambda s, b, h, q, k: torch.nn.functional.gelu(s) * torch.sigmoid(s).clamp(min=0.3),
        lambda b, h, q, k: (q // 16 == k // 16) | torch.logical_not(k > 40),
    ),
    "not of the score": lambda t: (lambda s, b, h, q, k: 0.1 * (q - k), causal),
}  # fmt: skip


def run(device, program, inputs, block, gqa=False):
    """out, lse, the largest scores, and the gradients of all inputs and of lse."""
    score, mask = PROGRAMS[program](Tensors(device))
    q, k, v, g, g_lse = (x.detach().to(device) for x in inputs)
    for x in (q, k, v):
        x.requires_grad_()
    lists = _create_empty_block_mask(q, k)
    if mask is not None:
        shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        lists = create_block_mask(mask, *shape, device, block)
    if device == "cuda":
        _flex.fused(q, k, v, score, lists, 0.3, False)  # NotWritable if kernels cannot
    out, aux = flex_attention(
        q, k, v, score, lists, 0.3, gqa, return_aux=AuxRequest(lse=True, max_scores=True)
    )
    hidden = aux.lse == -torch.inf
    loss = (out * g).sum() + (aux.lse.masked_fill(hidden, 0) * g_lse).sum()
    grads = torch.autograd.grad(loss, (q, k, v), allow_unused=True, materialize_grads=True)
    return out.stride(), [x.detach().cpu() for x in (out, *aux, *grads)]


def both(program, heads=(4, 4), lengths=(50, 70), widths=(8, 8), kind=np.float32, block=16):
    q = numbers(2, lengths[0], heads[0], widths[0], kind=kind).transpose(1, 2)
    k = numbers(2, heads[1], lengths[1], widths[0], kind=kind)
    v = numbers(2, heads[1], lengths[1], widths[1], kind=kind)
    g = numbers(2, heads[0], lengths[0], widths[1], kind=kind)
    inputs = q, k, v, g, numbers(2, heads[0], lengths[0])
    gqa = heads[0] != heads[1]
    digits = {2: 2e-2, 4: 2e-5, 8: 1e-10}[np.dtype(kind).itemsize]
    lies, found = run("cuda", program, inputs, block, gqa)
    should_lie, expected = run("cpu", program, inputs, block, gqa)
    assert lies == should_lie
    for x, y in zip(found, expected):
        assert x.dtype is y.dtype
        torch.testing.assert_close(x.double(), y.double(), rtol=digits, atol=digits)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program):
    both(program)


@pytest.mark.parametrize("kind", FLOATS)
def test_types_and_shared_heads(kind):
    both("softcap", heads=(4, 2), widths=(16, 23), kind=kind)


@pytest.mark.parametrize("block", [(16, 64), 128, (96, 32), 1024])
def test_sizes_of_blocks(block):
    both("joined", block=block)


@pytest.mark.parametrize("lengths", [(1, 70), (33, 1), (5, 3)])
def test_lengths(lengths):
    both("alibi", lengths=lengths)
    both("nothing", lengths=lengths)


def test_64_bit_offsets(monkeypatch):
    from tritorch.ops.pointwise import scalar_programs

    monkeypatch.setattr(launches, "INT32_MAX", 0)
    monkeypatch.setattr(scalar_programs, "INT32_MAX", 0)
    both("table", heads=(4, 2))


def lists_by_hand(device):
    """Rows 0 to 15 see block 1 in part; the others see block 2 whole, and 0 in part."""
    table = lambda *values: torch.tensor([[values]], dtype=torch.int32, device=device)
    return BlockMask.from_kv_blocks(
        table(1, 1), table([1, 0, 2], [0, 1, 2]), table(0, 1), table([0, 1, 2], [2, 0, 1]), 16,
        lambda b, h, q, k: k % 2 == 0,
    )  # fmt: skip


def test_listed_blocks_alone_are_computed_and_full_ones_unasked():
    q, k = numbers(1, 2, 32, 8), numbers(1, 2, 48, 8)
    i, j = np.ogrid[:32, :48]
    seen = np.where(i < 16, (j // 16 == 1) & (j % 2 == 0), (j >= 32) | ((j < 16) & (j % 2 == 0)))
    whole = torch.nn.functional.scaled_dot_product_attention(q, k, k, torch.tensor(seen))
    for device in ("cpu", "cuda"):
        x, y = q.to(device), k.to(device)
        out = flex_attention(x, y, y, block_mask=lists_by_hand(device)).cpu()
        torch.testing.assert_close(out, whole)


def test_gradients_reach_what_is_captured():
    results = []
    given = [numbers(*shape) for shape in ((2, 4, 20, 8), (2, 4, 30, 8), (4, 20, 30), (4,), ())]
    g = numbers(2, 4, 20, 8)
    for device in ("cpu", "cuda"):
        q, k, table, slopes, unit = own = [x.to(device).requires_grad_() for x in given]
        lists = create_block_mask(lambda b, h, q, k: q >= k - 5, 1, 1, 20, 30, device, 16)

        def score(s, b, h, i, j, table=table, slopes=slopes, unit=unit):
            return s * unit + (table * 2)[h, i, j] * slopes[h]

        out = flex_attention(q, k, k, score, lists)
        first = torch.autograd.grad(out, own, g.to(device), create_graph=True)
        plain = torch.autograd.grad(flex_attention(q, k, k, score, lists), own, g.to(device))
        second = torch.autograd.grad(sum(x.square().sum() for x in first), own)
        results.append([x.detach().cpu() for x in (out, *first, *plain, *second)])
    for x, y in zip(*results):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


def test_a_write_into_what_was_captured_is_noticed():
    q = numbers(1, 2, 16, 8).cuda().requires_grad_()
    table = numbers(16).cuda()
    out = flex_attention(q, q, q, lambda s, b, h, i, j: s + table[i])
    table.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


NOT_WRITABLE = {
    "a reduction": lambda s, b, h, i, j: s + torch.ones(4, device="cuda").sum() * (i + j).sum(),
    "a row of a tensor": lambda s, b, h, i, j: s + torch.ones(20, 3, device="cuda")[i].sum(),
    "random numbers": lambda s, b, h, i, j: s + torch.rand((), device=s.device),
    "a value that is read": lambda s, b, h, i, j: s * (1 if i >= 0 else 2),
    "in place": lambda s, b, h, i, j: (s + 0).add_(i),
}


@pytest.mark.parametrize("name", NOT_WRITABLE)
def test_what_cannot_be_written_runs_by_operators(name):
    q = numbers(1, 2, 20, 8).cuda()
    score = NOT_WRITABLE[name]
    with pytest.raises(NotWritable):
        _flex.fused(q, q, q, score, _create_empty_block_mask(q, q), 1.0, False)
    if name in ("random numbers", "a value that is read"):
        with pytest.raises(RuntimeError, match="vmap"):
            flex_attention(q, q, q, score)
    else:
        assert flex_attention(q, q, q, score).shape == q.shape


def test_the_written_source():
    from tritorch.arrays.written import Program
    from tritorch.ops.pointwise.scalar_programs import emit, write

    table = numbers(4, 9).cuda()
    program = Program()
    kinds = [("s", torch.float32), *((name, torch.int32) for name in "hqk")]
    score = lambda s, h, q, k: torch.where(q >= k, s * 2 + table[h, q - k], -1)
    text = emit("score", "shqk", program, write(program, score, kinds, True), [torch.float32] * 2)
    lines = [line.strip() for line in text[text.index("def") :].splitlines()]
    assert lines == [
        "def score(s, h, q, k, pointers, sizes, strides):",
        "x4 = convert(ge(q, k), tl.int1)",
        "x5 = mul(s, constant(2.0, tl.float32))",
        "x6 = sub(q, k)",
        "x11 = convert(tl.load(pointers[0] + offset(h, sizes[0], strides[0]) + "
        "offset(x6, sizes[1], strides[1])), tl.float32)",
        "x12 = add(x5, x11)",
        "x13 = where(convert(x4, tl.float32), x12, constant(-1.0, tl.float32))",
        "x15 = where(convert(x4, tl.float32), constant(1.0, tl.float32), "
        "constant(0.0, tl.float32))",
        "x16 = mul(x15, constant(2.0, tl.float32))",
        "return x13, x16",
    ]
    again = Program()
    assert (
        emit("score", "shqk", again, write(again, score, kinds, True), [torch.float32] * 2) == text
    )


SCALE = 2.0


def test_functions_are_found_again_while_nothing_they_reach_changes(monkeypatch):
    made, written = [], _flex.written
    monkeypatch.setattr(_flex, "written", lambda *args: (made.append(1), written(*args))[1])
    q = numbers(1, 2, 16, 8).cuda()

    def maker(table, shift, shifts):
        inner = lambda x: x + shift

        def score(s, b, h, i, j):
            return inner(s * SCALE) + table[i - j] + (shifts[0] if shifts else 0)

        return score

    def check(score, fresh):
        before = len(made)
        out = flex_attention(q, q, q, score).cpu()
        assert len(made) - before == fresh
        functions = _flex.mapped(score, _flex.WHOLE.mask_mod)
        by_operators = _flex.composed(q, q, q, functions, _flex.WHOLE, 8**-0.5)[0]
        torch.testing.assert_close(out, by_operators.cpu(), rtol=1e-4, atol=1e-4)

    table = numbers(40).cuda()
    score = maker(table, 1.0, ())
    check(score, True)
    check(score, False)
    check(maker(table, 1.0, ()), False)  # another object of the same code
    check(maker(table, 2.0, ()), True)
    table.mul_(2)
    check(score, True)
    check(maker(table.clone(), 1.0, ()), True)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    check(score, True)
    check(score, False)
    check(maker(table, 1.0, [0.5]), True)  # a list may change: never kept
    check(maker(table, 1.0, [0.5]), True)
    with torch.no_grad():
        check(score, True)  # without its slope
