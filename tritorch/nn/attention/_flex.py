"""Flex attention: its definition by operators, and the fused kernels where they can.

# Note [Which places are seen]
A place is seen if its block is in the list of full blocks, or if it is in the other list and the
mask_mod says so.  Blocks in neither list are not computed, whatever the mask_mod says: PyTorch's
compiled kernels do the same, its function without a compiler asks the mask_mod alone.  Where the
lists were made of the mask_mod, nobody can tell.

# Note [Flex attention on the GPU]
The functions of a program become jit functions (Note [Programs of scalars]) that the kernels of
`kernels/flex.py` call.  Gradients of tensors that a score_mod loads from, and those that are
differentiated again, go through the definition, some rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.written import NotWritable, Program, Value
from tritorch.autograd import grad
from tritorch.autograd.function import Function
from tritorch.core import published
from tritorch.core.dispatching import entered
from tritorch.core.dtype import bfloat16, bool_, float16, float32, float64, int32
from tritorch.core.scopes import recorded
from tritorch.core.tensor import Tensor
from tritorch.nn.attention._block_mask import (
    _LARGE_SPARSE_BLOCK_SIZE,
    BlockMask,
    Mod,
    _ordered_to_dense,
    _vmap_for_bhqkv,
    noop_mask,
)
from tritorch.nn.attention._flex_cache import found_or_made
from tritorch.ops.index.indexing import scalars
from tritorch.ops.interpret.vmap import active
from tritorch.ops.pointwise.scalar_programs import emit, loaded, loads_by, run, write
from tritorch.ops.shape.copies import broadcast_shapes
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.ranges import arange

Places = Sequence[Tensor]  # batches, heads, rows and keys, one dim each
_FEW_BYTES = 1 << 28  # of scores that the definition holds at once, where it goes by rows
_FEW_SCORES = 1 << 18  # below which blocks are not worth going through one by one
_SPARSE = 0.75  # of all blocks: where fewer are seen, only those are computed


class Functions(NamedTuple):
    """A program's functions over many places at once: score(scores, *places) and mask(*places),
    which is None where nothing is hidden."""

    score: Callable[..., Tensor] | None
    mask: Callable[..., Tensor] | None


def mapped(score_mod: Mod | None, mask_mod: Mod) -> Functions:
    """Functions of numbers, by vmap."""

    def over(fn: Mod, prefix: tuple[int, ...]) -> Callable[..., Tensor]:
        many = _vmap_for_bhqkv(fn, prefix)

        def call(*args: Tensor) -> Tensor:
            with scalars.kept():
                return many(*args)

        return call

    score = None if score_mod is None else over(score_mod, (0,))
    return Functions(score, None if mask_mod is noop_mask else over(mask_mod, ()))


# ---- the definition ------------------------------------------------------------------------------


class Whole:
    """Stands for a block mask where there is none: all places are seen."""

    BLOCK_SIZE = (_LARGE_SPARSE_BLOCK_SIZE, _LARGE_SPARSE_BLOCK_SIZE)
    mask_mod = staticmethod(noop_mask)


WHOLE: Any = Whole()


class Tables(NamedTuple):
    """A block mask as tables of bools, (batches or 1, heads or 1, blocks of rows, of keys)."""

    partial: Tensor
    full: Tensor | None
    block: tuple[int, int]

    def seen(self, rows: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor | None:
        """Which places are seen."""
        partial, full = self._at(self.partial, rows, keys), None
        if self.full is not None:
            full = self._at(self.full, rows, keys)
        seen = partial if mask is None else mask & partial
        return seen if full is None else seen | full

    def _at(self, table: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        by_rows = table.index_select(2, rows // self.block[0])
        return by_rows.index_select(3, keys // self.block[1])


def _tables(block_mask: BlockMask) -> Tables | None:
    """None where all places are in one block."""
    if min(block_mask.BLOCK_SIZE) >= _LARGE_SPARSE_BLOCK_SIZE:
        return None
    width = block_mask.kv_indices.shape[-1]
    partial = _ordered_to_dense(block_mask.kv_num_blocks, block_mask.kv_indices, width) != 0
    full = None
    if block_mask.full_kv_num_blocks is not None and block_mask.full_kv_indices is not None:
        width = block_mask.full_kv_indices.shape[-1]
        counts, indices = block_mask.full_kv_num_blocks, block_mask.full_kv_indices
        full = _ordered_to_dense(counts, indices, width) != 0
    return Tables(partial, full, block_mask.BLOCK_SIZE)


class Part(NamedTuple):
    """Rows that are computed together, and the keys that they may see (None: all)."""

    rows: slice
    keys: Tensor | None


def _parts(q: Tensor, k: Tensor, tables: Tables | None, bounded: bool) -> list[Part]:
    """Rows of which not all keys are computed one block after the other; bounded: no more rows
    at once than memory allows."""
    batch, heads, n_rows, _ = q.shape
    n_keys = k.shape[2]
    whole = [Part(slice(0, n_rows), None)]
    if (
        q.device.type == "cpu"
        and tables is not None
        and batch * heads * n_rows * n_keys > _FEW_SCORES
    ):
        table = tables.partial if tables.full is None else tables.partial | tables.full
        seen = table.flatten(0, 1).any(0)
        if float(seen.to(float32).mean()) < _SPARSE:
            step, width = tables.block
            parts = []
            inside = arange(width)
            for i in range(-(-n_rows // step)):
                keys = (seen[i].nonzero() * width + inside).flatten()
                parts.append(
                    Part(slice(i * step, min((i + 1) * step, n_rows)), keys[keys < n_keys])
                )
            return parts
    if bounded:
        step = max(_FEW_BYTES // max(batch * heads * n_keys * 4, 1), 1)
        if step < n_rows:
            return [Part(slice(i, min(i + step, n_rows)), None) for i in range(0, n_rows, step)]
    return whole


class Scores(NamedTuple):
    """Of some rows: scores before and after the functions, in `kind`; -inf where hidden."""

    plain: Tensor
    changed: Tensor
    values: Tensor
    keys: Tensor


def _shared(x: Tensor, heads: int) -> Tensor:
    """Keys or values for each query head."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _scores(
    q: Tensor, k: Tensor, v: Tensor, functions: Functions, tables: Tables | None, scale: float,
    part: Part,
) -> Scores:  # fmt: skip
    kind = float64 if q.dtype is float64 else float32
    if part.rows != slice(0, q.shape[2]):
        q = q[:, :, part.rows]
    if part.keys is not None:
        k, v = k.index_select(2, part.keys), v.index_select(2, part.keys)
    plain = (q.to(kind) @ k.to(kind).transpose(-2, -1)) * scale
    where: dict[str, Any] = {"device": q.device}
    places = [arange(n, **where) for n in plain.shape[:2]]
    places.append(arange(part.rows.start, part.rows.stop, **where))
    n_keys = plain.shape[3]
    places.append(arange(n_keys, **where) if part.keys is None else part.keys)
    changed = plain
    if functions.score is not None:
        changed = functions.score(plain, *places).to(kind)
    seen = None if functions.mask is None else functions.mask(*places)
    if tables is not None:
        seen = tables.seen(places[2], places[3], seen)
    if seen is not None:
        changed = changed.masked_fill(~seen, -math.inf)
    return Scores(plain, changed, v, k)


def composed(
    q: Tensor, k: Tensor, v: Tensor, functions: Functions, block_mask: BlockMask, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(score(scale q k^T) where seen) v, each row's log of its sum, and largest score."""
    tables = _tables(block_mask)
    k, v = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    done = []
    for part in _parts(q, k, tables, False):
        scores = _scores(q, k, v, functions, tables, scale, part)
        if scores.changed.shape[3] == 0:
            empty = scores.changed.new_full(scores.changed.shape[:3], -math.inf)
            done.append((scores.changed.to(q.dtype) @ scores.values.to(q.dtype), empty, empty))
            continue
        top = scores.changed.amax(-1)
        nothing = top.detach() == -math.inf
        lse = scores.changed.logsumexp(-1)
        weights = (scores.changed - lse.masked_fill(nothing, 0).unsqueeze(-1)).exp()
        done.append((weights.to(q.dtype) @ scores.values.to(q.dtype), lse, top))
    if len(done) == 1:
        return done[0]
    out, lse, top = (cat(list(each), 2) for each in zip(*done))
    return out, lse, top


# ---- the fused kernels ---------------------------------------------------------------------------

_INPUTS = ("s", "b", "h", "q", "k")
_KINDS = (float16, bfloat16, float32, float64)


class Written(NamedTuple):
    """A program's functions as steps; of those, what they load from is in `program.tensors`."""

    program: Program
    score: list[Value] | None  # and its slope, if that is wanted
    mask: list[Value] | None
    kind: Any  # what scores are computed in

    def functions(self, tensors: Sequence[Tensor]) -> Functions:
        """The steps run again, on tensors, with others to load from."""

        def shaped(places: Places) -> dict[str, Any]:
            n = len(places)
            many = [
                x.reshape(*(-1 if j == i else 1 for j in range(n))) for i, x in enumerate(places)
            ]
            return dict(zip(_INPUTS[1:], many))

        def score(s: Tensor, *places: Tensor) -> Tensor:
            assert self.score is not None
            found = run(self.program, self.score[:1], {"s": s, **shaped(places)}, tensors)[0]
            return found.expand(s.shape)

        def mask(*places: Tensor) -> Tensor:
            assert self.mask is not None
            return run(self.program, self.mask, shaped(places), tensors)[0].to(bool_)

        return Functions(None if self.score is None else score, None if self.mask is None else mask)


def written(score_mod: Mod | None, mask_mod: Mod, kind: Any, slope: bool) -> Written:
    """A program's functions as steps, or NotWritable."""
    program = Program()
    inputs = [(name, int32) for name in _INPUTS[1:]]
    score = mask = None
    try:
        if score_mod is not None:
            score = write(program, score_mod, [("s", kind), *inputs], slope)
        if mask_mod is not noop_mask:
            mask = write(program, mask_mod, inputs)
    except NotWritable:
        raise
    except Exception as error:  # by operators it runs, or fails in words about the program
        raise NotWritable(f"{type(error).__name__}: {error}") from error
    return Written(program, score, mask, kind)


def _mods(made: Written) -> Any:
    """What launches take of them."""
    from tritorch.gpu.nn.flex import Mods
    from tritorch.triton.written import named

    def text(name: str, inputs: Sequence[str], outputs: Sequence[Value], kind: Any) -> Any:
        return named(emit(name, inputs, made.program, outputs, [kind] * len(outputs)))

    score = slope = mask = None
    if made.score is not None:
        score = text("score", _INPUTS, made.score[:1], made.kind)
        if len(made.score) > 1:
            slope = text("score_and_slope", _INPUTS, made.score, made.kind)
    if made.mask is not None:
        mask = text("mask", _INPUTS[1:], made.mask, bool_)
    outputs = [*(made.score or ()), *(made.mask or ())]
    gathers = loads_by(made.program, outputs, ("q", "k"))
    return Mods(score, slope, mask, *loaded(made.program), gathers)


def _lists(block_mask: BlockMask, way: str, lead: tuple[int, int]) -> Any:
    """One way of a block mask's lists; NotWritable where they are not those of (batch, heads)."""
    from tritorch.gpu.nn.flex import Lists

    def table(name: str) -> Any:
        x = getattr(block_mask, name)
        if x is None:
            return None
        if any(n not in (1, wanted) for n, wanted in zip(x.shape[:2], lead)):
            raise NotWritable("a block mask of other batches or heads")
        return x.to(int32).contiguous()

    counts, blocks = table(f"{way}_num_blocks"), table(f"{way}_indices")
    if counts is None:
        return None
    full_counts, full_blocks = table(f"full_{way}_num_blocks"), table(f"full_{way}_indices")
    if full_counts is not None and full_counts.shape[:2] != counts.shape[:2]:
        lead = broadcast_shapes(counts.shape[:2], full_counts.shape[:2])
        counts, blocks, full_counts, full_blocks = (
            x.expand(*lead, *x.shape[2:]).contiguous()
            for x in (counts, blocks, full_counts, full_blocks)
        )
    given: Any = [
        None if x is None else x._array for x in (counts, blocks, full_counts, full_blocks)
    ]
    return Lists(*given)


def _sparsity(block_mask: BlockMask, lead: tuple[int, int]) -> Any:
    from tritorch.gpu.nn.flex import Sparsity, takes

    if min(block_mask.BLOCK_SIZE) >= _LARGE_SPARSE_BLOCK_SIZE:
        return None
    block = (block_mask.BLOCK_SIZE[0], block_mask.BLOCK_SIZE[1])
    if not takes(block):
        raise NotWritable(f"blocks of {block} places")
    return Sparsity(_lists(block_mask, "kv", lead), _lists(block_mask, "q", lead), block)


class Call(NamedTuple):
    """What both passes of a fused call know."""

    made: Written
    mods: Any
    sparsity: Any
    block_mask: BlockMask
    scale: float
    tops: bool


class FlexAttention(Function):
    """The kernels, forward and backward; arguments after `call` are what the program loads from."""

    _of_package = True

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, call: Call, *loads: Tensor) -> Any:
        """out, lse and the rows' largest scores (lse again if nobody wants them)."""
        from tritorch.gpu.nn.flex import flex

        arrays = (q._a, k._a, v._a)
        found = flex(*arrays, call.mods, call.sparsity, call.scale, call.tops)
        out, lse = _C.wrap(found[0]), _C.wrap(found[1])
        top = _C.wrap(found[2]) if call.tops else lse.new_empty((0,))
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(top)
        ctx.save_for_backward(q, k, v, out, lse, *loads)
        return out, lse, top

    @staticmethod
    def backward(ctx: Any, g: Any, g_lse: Any, g_top: Any) -> Any:
        """The gradients of q, k and v by the kernels, of what is loaded by the definition."""
        q, k, v, out, lse, *loads = ctx.saved_tensors
        call, needs = ctx.call, ctx.needs_input_grad
        if _C.is_grad_enabled():  # to be differentiated again
            return _again(call, (q, k, v, *loads), needs, g, g_lse)
        from tritorch.gpu.nn.flex import flex_backward, flex_delta

        delta = None
        if g is None:
            g = published.public.zeros_like(out)
        else:
            delta = _C.wrap(flex_delta(g._a, out._a))
        if delta is None:
            delta = published.public.zeros_like(lse)
        if g_lse is not None:
            delta = delta - g_lse
        grads: list[Any] = [None, None, None]
        if any(needs[:3]):
            found = flex_backward(
                g._a, q._a, k._a, v._a, lse._a, delta.contiguous()._a, call.mods, call.sparsity,
                call.scale,
            )  # fmt: skip
            grads = [_C.wrap(x) if need else None for x, need in zip(found, needs)]
        of_loads: list[Any] = [None] * len(loads)
        if any(needs[4:]):
            of_loads = _of_loads(call, q, k, v, g, lse, delta, loads, needs[4:])
        return (*grads, None, *of_loads)


def _of_loads(
    call: Call, q: Tensor, k: Tensor, v: Tensor, g: Tensor, lse: Tensor, delta: Tensor,
    loads: Sequence[Tensor], needs: Sequence[bool],
) -> list[Any]:  # fmt: skip
    """The gradients of what a score_mod loads from, some rows at a time."""
    own = [x.detach().requires_grad_(need) for x, need in zip(loads, needs)]
    wanted = [x for x, need in zip(own, needs) if need]
    totals: list[Any] = [None] * len(wanted)
    tables = _tables(call.block_mask)
    k, v = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    for part in _parts(q, k, tables, True):
        with recorded:
            scores = _scores(q, k, v, call.made.functions(own), tables, call.scale, part)
        rows = part.rows
        row_lse = lse[:, :, rows].unsqueeze(-1)
        weights = (scores.changed.detach() - row_lse.masked_fill(row_lse == -math.inf, 0)).exp()
        dp = g[:, :, rows].to(weights.dtype) @ scores.values.to(weights.dtype).transpose(-2, -1)
        ds = weights * (dp - delta[:, :, rows].unsqueeze(-1))
        found = grad(scores.changed, wanted, ds, allow_unused=True)
        totals = [b if a is None else a if b is None else a + b for a, b in zip(totals, found)]
    each = iter(totals)
    return [next(each) if need else None for need in needs]


def _again(call: Call, inputs: Sequence[Tensor], needs: Sequence[bool], g: Any, g_lse: Any) -> Any:
    """All gradients by the definition, recorded."""
    inputs = [x.view_as(x) for x in inputs]  # one tensor may stand for several inputs
    q, k, v, *loads = inputs
    functions = call.made.functions(loads)
    found = composed(q, k, v, functions, call.block_mask, call.scale)[:2]
    pairs = [(x, y) for x, y in zip(found, (g, g_lse)) if y is not None]
    wanted = [x for x, need in zip(inputs, (*needs[:3], *needs[4:])) if need]
    outs, seeds = [x for x, _ in pairs], [y for _, y in pairs]
    each = iter(grad(outs, wanted, seeds, create_graph=True, allow_unused=True))
    grads = [next(each) if need else None for need in (*needs[:3], *needs[4:])]
    return (*grads[:3], None, *grads[3:])


def fused(
    q: Tensor, k: Tensor, v: Tensor, score_mod: Mod | None, block_mask: BlockMask, scale: float,
    tops: bool,
) -> Any:  # fmt: skip
    """The call by kernels, or NotWritable."""
    plain = all(type(x) is Tensor or type(x).__name__ == "Parameter" for x in (q, k, v))
    plain = plain and all(type(x._array) is _C.Array and x._tangent is None for x in (q, k, v))
    if not plain or entered.modes or active.levels or q.dtype not in _KINDS:
        raise NotWritable("tensors that are not plain ones of the GPU")
    if k.dtype is not q.dtype or v.dtype is not q.dtype or not (q.numel() and k.numel()):
        raise NotWritable("keys of another dtype, or no keys")
    wants = _C.is_grad_enabled()
    kind = float64 if q.dtype is float64 else float32
    sparsity = _sparsity(block_mask, (q.shape[0], q.shape[1]))
    mask_mod = block_mask.mask_mod

    def make() -> tuple[Written, Any]:
        steps = written(score_mod, mask_mod, kind, wants)
        return steps, _mods(steps)

    made, mods = found_or_made((score_mod, mask_mod), (kind, wants), make, loaded)
    if any(type(x._array) is not _C.Array for x in made.program.tensors):
        raise NotWritable("what is loaded is not on the GPU")
    call = Call(made, mods, sparsity, block_mask, scale, tops)
    return FlexAttention.apply(q, k, v, call, *made.program.tensors)
