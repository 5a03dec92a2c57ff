"""Block masks: which blocks of rows and keys flex attention computes, and how masks are made.

# Note [Ordered lists]
A block mask has for each block of rows how many blocks of keys it sees (`kv_num_blocks`) and which
(`kv_indices`, whose entries after those mean nothing); blocks that are seen whole may have lists of
their own (`full_kv_...`), and each list has one the other way (`q_...`), which gradients of keys
need.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

from tritorch import _C, cuda
from tritorch.core.device import device as Device
from tritorch.core.dtype import bool_, float32, int8, int32
from tritorch.core.gates import Gate
from tritorch.core.naming import qualified
from tritorch.core.tensor import Tensor, flushing, gives_number
from tritorch.func.vmap import vmap
from tritorch.ops.index.indexing import scalars
from tritorch.ops.index.sorting import argsort
from tritorch.ops.pointwise import arithmetic
from tritorch.ops.pointwise.pointwise import isneginf
from tritorch.ops.shape import factory
from tritorch.ops.shape.copies import broadcast_shapes
from tritorch.ops.shape.padding import pad
from tritorch.ops.shape.ranges import arange

Mod = Callable[..., Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30


class _ModificationType(enum.Enum):
    """What a function of a program's is: it changes scores, or says which are seen."""

    SCORE_MOD = 1
    MASK_MOD = 2
    UNKNOWN = 3


def _get_mod_type(fn: Mod) -> _ModificationType:
    """By its arguments without defaults: five of a score's, four of a mask's."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        count = code.co_argcount - len(getattr(fn, "__defaults__", None) or ())
    else:
        given = inspect.signature(fn).parameters.values()
        count = sum(each.default is inspect.Parameter.empty for each in given)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return _ModificationType.SCORE_MOD if count == 5 else _ModificationType.MASK_MOD


def _vmap_for_bhqkv(
    fn: Mod, prefix: tuple[int | None, ...], suffix: tuple[int | None, ...] = (),
    out_dims: Any = 0, group_dim: bool = False,
) -> Mod:  # fmt: skip
    """A function of numbers over all batches, heads, rows and keys.  prefix, suffix: the dims of
    other arguments before and after those."""
    innermost_first = (3, 2, 1, *((1,) if group_dim else ()), 0)
    for place in innermost_first:
        dims = tuple(0 if i == place else None for i in range(4))
        fn = vmap(fn, in_dims=(*prefix, *dims, *suffix), out_dims=out_dims)
    return fn


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that hides nothing."""
    return batch.new_ones((), dtype=bool_)


def _sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask_mod of a part of a block mask, which says that it needs another."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. "
        "When you slice a BlockMask using [], the mask_mod attribute is reset. "
        "You must set it from the original BlockMask's mask_mod."
        "\n\nIncorrect usage:"
        "\n  base_mask = create_block_mask(my_mask_fn, ...)"
        "\n  sliced_mask = base_mask[:, :, block_idx]"
        "\n  sliced_mask.mask_mod = apply_offset(sliced_mask.mask_mod, offset)  # WRONG!"
        "\n\nCorrect usage:"
        "\n  base_mask = create_block_mask(my_mask_fn, ...)"
        "\n  sliced_mask = base_mask[:, :, block_idx]"
        "\n  sliced_mask.mask_mod = apply_offset(base_mask.mask_mod, offset)  # Use base_mask!"
    )


def _joined(mask_mods: tuple[Mod, ...], start: bool, join: Mod, name: str) -> Mod:
    if not all(callable(each) for each in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=bool_)
        for each in mask_mods:
            result = join(result, each(b, h, q_idx, kv_idx))
        return result

    joined.__name__ = joined.__qualname__ = name
    return joined


def or_masks(*mask_mods: Mod) -> Mod:
    """The mask that shows what any of some masks shows."""
    return _joined(mask_mods, False, lambda a, b: a | b, "or_mask")


def and_masks(*mask_mods: Mod) -> Mod:
    """The mask that shows what all of some masks show."""
    return _joined(mask_mods, True, lambda a, b: a & b, "and_mask")


# ---- lists and dense tables ----------------------------------------------------------------------


def _ordered_to_dense(num_blocks: Tensor, indices: Tensor, num_cols: int) -> Tensor:
    """The table of ones and zeros that lists stand for."""
    entry = arange(indices.shape[-1], dtype=int32, device=indices.device)
    meant = entry < num_blocks.unsqueeze(-1)
    places = arithmetic.where(meant, indices.long(), num_cols)  # the others go to a column too many
    dense = indices.new_zeros((*indices.shape[:-1], num_cols + 1), dtype=int32)
    ones = dense.new_ones(()).expand(places.shape)
    return dense.scatter(-1, places, ones)[..., :num_cols].contiguous()


def _dense_to_ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """The lists of a table, entries in ascending order."""
    dense = dense.to(int32)
    indices = argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(int32).contiguous(), indices.to(int32).contiguous()


def _transpose_ordered(num_blocks: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The lists the other way."""
    dense = _ordered_to_dense(num_blocks, indices, indices.shape[-1])
    return _dense_to_ordered(dense.transpose(-2, -1))


def _adjust_num_blocks_and_indices(
    num_blocks: Tensor, indices: Tensor, new_num_rows: int, new_num_cols: int
) -> tuple[Tensor, Tensor]:
    """The lists of the upper left part."""
    indices = indices[:, :, :new_num_rows, :new_num_cols]
    num_blocks = num_blocks[:, :, :new_num_rows].clamp(max=new_num_cols)
    return (indices < num_blocks[..., None]).sum(-1).to(int32), indices


def _both_or_none(what: str, counts: Any, indices: Any) -> None:
    if (counts is None) != (indices is None):
        raise AssertionError(
            f"full_{what}_num_blocks and full_{what}_indices must be both provided or omitted"
        )


_SHAPED = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
    "q_indices", "full_q_num_blocks", "full_q_indices",
)  # fmt: skip


class BlockMask:
    """Which blocks of rows and keys are computed: Note [Ordered lists].

    seq_lengths: of queries and of keys.  BLOCK_SIZE: rows and keys of a block.  mask_mod: which
    places of the blocks that are not full are seen.  The dq_ fields order additions of a flash
    attention that is not here; they are kept and handed on."""

    _TENSOR_ATTRS = [*_SHAPED, "dq_write_order", "dq_write_order_full", "dq_kv_order"]  # noqa: RUF012
    _CONTEXT_ATTRS = ["seq_lengths", "BLOCK_SIZE", "mask_mod", "dq_kv_order_spt"]  # noqa: RUF012

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Mod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if kv_num_blocks is None:
            raise AssertionError("kv_num_blocks must be provided")
        _both_or_none("kv", full_kv_num_blocks, full_kv_indices)
        _both_or_none("q", full_q_num_blocks, full_q_indices)
        if dq_write_order_full is not None and dq_write_order is None:
            raise ValueError("dq_write_order_full requires dq_write_order")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> BlockMask:
        """A block mask of its lists of keys; those of rows follow, unless compute_q_blocks says
        that no gradient will be wanted."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _both_or_none("kv", full_kv_num_blocks, full_kv_indices)
        by_rows: tuple[Any, Any] = (None, None)
        full_by_rows: tuple[Any, Any] = (None, None)
        if compute_q_blocks:
            by_rows = _transpose_ordered(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_by_rows = _transpose_ordered(full_kv_num_blocks, full_kv_indices)
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * block[0], kv_indices.shape[-1] * block[1])
        if dq_kv_order is not None and not isinstance(dq_kv_order, (bool, Tensor)):
            raise ValueError("dq_kv_order must be a bool, Tensor, or None")
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_rows,
            *full_by_rows, block, noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, Tensor) else None,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All fields in the order of a kernel's arguments; flatten: lengths and sizes apart."""
        lengths, block = tuple(self.seq_lengths), tuple(self.BLOCK_SIZE)
        return (
            *(lengths if flatten else (self.seq_lengths,)),
            *(getattr(self, name) for name in self._TENSOR_ATTRS),
            self.dq_kv_order_spt,
            *(block if flatten else (self.BLOCK_SIZE,)),
            self.mask_mod,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(batches, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many places there are, seen or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many percent of the places are in blocks that are not computed."""
        computed = int(self.kv_num_blocks.sum().item())
        if self.full_kv_num_blocks is not None:
            computed += int(self.full_kv_num_blocks.sum().item())
        return 100 * (1 - computed * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """The table of blocks, 1 where one is computed."""
        dense = _ordered_to_dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            width = self.full_kv_indices.shape[-1]
            dense = dense | _ordered_to_dense(self.full_kv_num_blocks, self.full_kv_indices, width)
        return dense

    def _dq_kv_order(self) -> Tensor | bool | None:
        return self.dq_kv_order_spt if self.dq_kv_order is None else self.dq_kv_order

    def _refuse_order(self, what: str) -> None:
        if self.dq_kv_order is not None:
            raise NotImplementedError(
                f"{what} BlockMask with tensor dq_kv_order is not supported yet. "
                "Construct a new BlockMask with matching precomputed dq_write_order metadata."
            )

    def _with_order(self, made: BlockMask) -> BlockMask:
        """A block mask made of this one, with the same order of additions."""
        made.dq_kv_order_spt = self.dq_kv_order_spt
        if self.dq_write_order is not None:
            made.dq_write_order, made.dq_write_order_full = _compute_dq_write_order_from_block_mask(
                made, made.dq_kv_order_spt
            )
        return made

    def __getitem__(self, index: Any) -> BlockMask:
        """The block mask of some batches, heads and blocks of rows; an int keeps its dim."""
        self._refuse_order("Slicing")
        given = index if isinstance(index, tuple) else (index,)
        places: list[Any] = []
        for item, n in zip((*given, *(slice(None),) * 3), self.kv_num_blocks.shape[:3]):
            if isinstance(item, int):
                item = item + n if -n <= item < 0 else item
                item = slice(item, item + 1)
            places.append(item)
        where = tuple(places)
        part: Any = [
            None if x is None else x[where] for x in (getattr(self, n) for n in _SHAPED[:4])
        ]
        return self._with_order(
            BlockMask.from_kv_blocks(
                part[0],
                part[1],
                part[2],
                part[3],
                BLOCK_SIZE=self.BLOCK_SIZE,
                mask_mod=_sliced_mask_mod_error,
                seq_lengths=self.seq_lengths,
                compute_q_blocks=self.q_indices is not None,
            )
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left part, for other lengths."""
        self._refuse_order("Adjusting")
        rows, cols = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        part: Any = list(
            _adjust_num_blocks_and_indices(self.kv_num_blocks, self.kv_indices, rows, cols)
        )
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            part += _adjust_num_blocks_and_indices(
                self.full_kv_num_blocks, self.full_kv_indices, rows, cols
            )
        else:
            part += [None, None]
        return self._with_order(
            self.from_kv_blocks(
                part[0],
                part[1],
                part[2],
                part[3],
                BLOCK_SIZE=self.BLOCK_SIZE,
                mask_mod=self.mask_mod,
                seq_lengths=(new_q_len, new_kv_len),
                compute_q_blocks=self.q_indices is not None,
            )
        )

    def to(self, device: Any) -> BlockMask:
        """A block mask with all tensors on a device."""
        moved: dict[str, Any] = {
            name: None if x is None else x.to(device)
            for name, x in ((name, getattr(self, name)) for name in self._TENSOR_ATTRS)
        }
        return BlockMask(
            seq_lengths=self.seq_lengths, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            dq_kv_order_spt=self.dq_kv_order_spt, **moved,
        )  # fmt: skip

    def _flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Its tensors, and what else it is made of: for `register_pytree_node`."""
        absent = tuple(name for name in self._TENSOR_ATTRS if getattr(self, name) is None)
        tensors = tuple(getattr(self, name) for name in self._TENSOR_ATTRS if name not in absent)
        return tensors, (*(getattr(self, name) for name in self._CONTEXT_ATTRS), absent)

    @classmethod
    def _unflatten(cls, leaves: Any, context: tuple[Any, ...]) -> BlockMask:
        """The block mask of what `_flatten` gave."""
        *rest, absent = context
        names = [name for name in cls._TENSOR_ATTRS if name not in absent]
        tensors: dict[str, Any] = dict.fromkeys(absent) | dict(zip(names, leaves))
        return cls(**tensors, **dict(zip(cls._CONTEXT_ATTRS, rest)))

    # ---- as text ------------------------------------------------------------------------------

    def __str__(self) -> str:
        picture = self.to_string().strip()
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{picture}\n)"

    def __repr__(self) -> str:
        lines = []
        for name in _SHAPED:
            x = getattr(self, name)
            lines.append(f"{name}={None if x is None else x.shape}")
        lines += [
            f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}",
            f"sparsity={self.sparsity():.2f}%",
            f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]  # fmt: skip
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of each batch and head, at most `limit` of them, of about grid_size places,
        each of which is full, empty or in between; -1: of as many as there are blocks."""
        dense = self.to_dense()
        *lead, n_rows, n_cols = dense.shape
        rows, cols = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        row_step = max(1, -(-n_rows // rows) if rows > 0 else 1)
        col_step = max(1, -(-n_cols // cols) if cols > 0 else 1)
        pictures = []
        for count, place in enumerate(itertools.product(*map(range, lead))):
            if count == limit:
                pictures += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or "
                    "head",
                ]
                break
            lines = [f"{place}"]
            for r in range(0, n_rows, row_step):
                line = ""
                for c in range(0, n_cols, col_step):
                    share = dense[place][r : r + row_step, c : c + col_step].to(float32).mean()
                    line += {1.0: "█", 0.0: " "}.get(float(share), "░") * 2
                lines.append(line)
            pictures.append("\n".join(lines) + "\n")
        return "\n".join(pictures)


# ---- making them ---------------------------------------------------------------------------------


def _broadcast_to_dim(x: Tensor, dim: int) -> Tensor:
    return x.reshape((1,) * (dim - x.dim()) + tuple(x.shape)) if x.dim() < dim else x


def _round_up_to_multiple(x: int, multiple: int) -> int:
    return (x + multiple - 1) // multiple * multiple


def _convert_mask_to_block_mask(
    mask: Tensor,
    Q_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    KV_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    separate_full_blocks: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Which blocks show something, or if full ones are apart, those that show a part; and those."""
    if mask.dtype is not bool_:
        raise AssertionError(f"mask.dtype must be {qualified('bool')}, got {mask.dtype}")
    mask = _broadcast_to_dim(mask, 4)
    batches, heads, q_len, kv_len = mask.shape
    rows, cols = -(-q_len // Q_BLOCK_SIZE), -(-kv_len // KV_BLOCK_SIZE)
    more = (cols * KV_BLOCK_SIZE - kv_len, rows * Q_BLOCK_SIZE - q_len)
    if any(more):
        mask = pad(mask, (0, more[0], 0, more[1]))
    blocks = mask.reshape(batches, heads, rows, Q_BLOCK_SIZE, cols, KV_BLOCK_SIZE)
    seen = blocks.sum((-3, -1))
    if not separate_full_blocks:
        return (seen > 0).to(int8), None
    whole = Q_BLOCK_SIZE * KV_BLOCK_SIZE
    return ((seen > 0) & (seen < whole)).to(int8), (seen == whole).to(int8)


def _convert_block_mask_to_mask(
    block_mask: Tensor,
    KV_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    Q_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
) -> Tensor:
    """Each block's entry at all of its places."""
    if block_mask.dim() != 4:
        raise AssertionError(f"block_mask.dim() must be 4, got {block_mask.dim()}")
    batches, heads, rows, cols = block_mask.shape
    each = block_mask.reshape(batches, heads, rows, 1, cols, 1)
    wide = each.expand(batches, heads, rows, Q_BLOCK_SIZE, cols, KV_BLOCK_SIZE)
    return wide.reshape(batches, heads, rows * Q_BLOCK_SIZE, cols * KV_BLOCK_SIZE)


def _create_sparse_block_from_block_mask(
    block_mask: tuple[Tensor, Tensor | None],
    mask_mod: Mod | None,
    seq_lengths: tuple[int, int],
    Q_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    KV_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
) -> BlockMask:
    partial, full = block_mask
    counts, indices = _dense_to_ordered(partial)
    full_counts, full_indices = (None, None) if full is None else _dense_to_ordered(full)
    return BlockMask.from_kv_blocks(
        counts,
        indices,
        full_counts,
        full_indices,
        BLOCK_SIZE=(Q_BLOCK_SIZE, KV_BLOCK_SIZE),
        mask_mod=mask_mod,
        seq_lengths=seq_lengths,
    )


def _chosen(device: Any) -> Any:
    return Device("cuda" if cuda.is_available() else "cpu") if device is None else device


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask (B, H, Q_LEN, KV_LEN) of a mask_mod, or of a score_mod: where it is not -inf."""
    device = _chosen(device)
    lengths = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    places = [arange(n, device=device) for n in lengths]
    is_score = _get_mod_type(mod_fn) is _ModificationType.SCORE_MOD
    with scalars.kept():
        if is_score:
            zeros = factory.zeros(lengths, device=device)
            return ~isneginf(_vmap_for_bhqkv(mod_fn, (0,))(zeros, *places))
        return _vmap_for_bhqkv(mod_fn, ())(*places)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The block mask of a mask_mod; None for B or H: all have the same.

    separate_full_blocks: blocks that are seen whole have lists of their own, so that the mask is
    not asked there."""
    device = _chosen(device)
    if _get_mod_type(mask_mod) is not _ModificationType.MASK_MOD:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    q_block, kv_block = (BLOCK_SIZE,) * 2 if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    if _compile:
        warnings.warn(
            "_compile flag on create_block_mask was originally added to work around a "
            "torch.compile limitation. That limitation has since been addressed. So, to compile "
            "create_block_mask, we suggest doing torch.compile(create_block_mask). This still "
            "works for now, but will be removed in the future.",
            DeprecationWarning,
            stacklevel=2,
        )
    if not isinstance(dq_kv_order, bool):
        raise ValueError("dq_kv_order must be a bool when using create_block_mask")
    build = _built if _C.current_region() is None else _built_at_once
    order = dq_kv_order if compute_dq_write_order else None
    lengths, blocks = (B, H, Q_LEN, KV_LEN), (q_block, kv_block)
    return build(mask_mod, lengths, device, blocks, separate_full_blocks, order)


@gives_number  # PyTorch's graphs hold it
@flushing
def _built(
    mask_mod: Mod, lengths: tuple[int | None, int | None, int, int], device: Any,
    blocks: tuple[int, int], separate_full_blocks: bool, dq_kv_order: bool | None,
) -> BlockMask:  # fmt: skip
    """The block mask of a mask_mod; dq_kv_order: in which order dq is written, if that is asked."""
    mask = create_mask(mask_mod, *lengths, device)
    parts = _convert_mask_to_block_mask(mask, *blocks, separate_full_blocks)
    made = _create_sparse_block_from_block_mask(parts, mask_mod, lengths[2:], *blocks)
    if dq_kv_order is not None:
        made.dq_write_order, made.dq_write_order_full = _compute_dq_write_order_from_block_mask(
            made, dq_kv_order
        )
        made.dq_kv_order_spt = dq_kv_order
    return made


# In a compiled function: what waits is computed first, and no operator inside is recorded.
_built_at_once = Gate(_built, "create_block_mask", "create_block_mask", __name__)


def _compute_dq_write_order_from_block_mask(
    block_mask: BlockMask, dq_kv_order: bool | None = False
) -> tuple[Tensor, Tensor | None]:
    """For each entry of the lists of rows, how many blocks of keys of that row come before it; with
    dq_kv_order, after it."""
    if block_mask.q_num_blocks is None or block_mask.q_indices is None:
        raise ValueError("BlockMask must have q_num_blocks and q_indices to compute dq_write_order")
    n_keys = block_mask.q_indices.shape[-2]
    dense = block_mask.to_dense()[..., :n_keys].clamp(max=1)
    sums = dense.cumsum(-1)
    rank = sums - dense
    if dq_kv_order:
        rank = sums[..., -1:] - 1 - rank
    by_key = rank.to(int32).transpose(-2, -1)

    def order(indices: Tensor | None) -> Tensor | None:
        if indices is None:
            return None
        lead = broadcast_shapes(indices.shape[:2], by_key.shape[:2])
        places = indices.long().clamp(0, by_key.shape[-1] - 1).expand(*lead, *indices.shape[2:])
        return by_key.expand(*lead, *by_key.shape[2:]).gather(-1, places)

    found = order(block_mask.q_indices)
    assert found is not None
    return found, order(block_mask.full_q_indices)


def _create_empty_block_mask(query: Tensor, key: Tensor) -> BlockMask:
    """One block of all rows and keys."""
    return BlockMask.from_kv_blocks(
        kv_num_blocks=query.new_ones((1, 1, 1), dtype=int32),
        kv_indices=query.new_zeros((1, 1, 1, 1), dtype=int32),
        BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE,
        seq_lengths=(1, 1),
    )
