"""Gathering by index arrays, scattering in a fixed order, and compaction by masks."""

import triton
import triton.language as tl

from .copy import convert
from .errors import report
from .pointwise import block_offsets, strided


@triton.jit
def position(linear, mask, start, indices, shape, strides, sizes, steps, NDIM: tl.constexpr,
             flag, where, N_INDEX: tl.constexpr, WRAP: tl.constexpr):  # fmt: skip
    """start + sum of steps[i] * indices[i][linear], and which of them are inside their dims.

    WRAP: negative indices count from the end.  Bad ones are reported.
    """
    inside = mask
    for i in tl.static_range(N_INDEX):
        at = tl.load(indices[i] + strided(linear, shape, strides[i], NDIM), mask=mask, other=0)
        given = at
        if WRAP:
            at = tl.where(at < 0, at + sizes[i], at)
        bad = mask & ((at < 0) | (at >= sizes[i]))
        report(flag, where, given, bad)
        inside = inside & (bad == 0)
        start += at.to(start.dtype) * steps[i]
    return start, inside


@triton.jit
def gather(
    x_ptr, index_ptrs, y_ptr, n_elements, shape, x_strides, index_strides, sizes, steps, flag_ptr,
    where,
    NDIM: tl.constexpr, N_INDEX: tl.constexpr, WRAP: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = x[x_strides . i + sum over k of steps[k] * index_k[i]].

    shape: y's, which is dense.  sizes: how far each index may go.  One program gathers BLOCK
    elements.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    offsets, inside = position(
        linear, mask, strided(linear, shape, x_strides, NDIM), index_ptrs, shape, index_strides,
        sizes, steps, NDIM, flag_ptr, where, N_INDEX, WRAP,
    )  # fmt: skip
    tl.store(y_ptr + linear, tl.load(x_ptr + offsets, mask=inside, other=0), mask=mask)


@triton.jit
def index_keys(
    index_ptrs, key_ptr, n_elements, shape, key_strides, index_strides, sizes, steps, n_keys,
    flag_ptr, where,
    NDIM: tl.constexpr, N_INDEX: tl.constexpr, WRAP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """key[i] = key_strides . i + sum over k of steps[k] * index_k[i]; n_keys for a bad index.

    A key names the place that element i goes to.
    """
    linear, mask = block_offsets(n_elements, True, BLOCK)
    keys, inside = position(
        linear, mask, strided(linear, shape, key_strides, NDIM), index_ptrs, shape, index_strides,
        sizes, steps, NDIM, flag_ptr, where, N_INDEX, WRAP,
    )  # fmt: skip
    tl.store(key_ptr + linear, tl.where(inside, keys, n_keys), mask=mask)


# ---- plain scatter: the last one wins -----------------------------------------------------------


@triton.jit
def claim(key_ptr, winner_ptr, n_elements, n_keys, BLOCK: tl.constexpr):
    """winner[key] = the largest i with key[i] == key: the order of the atomics cannot show."""
    linear, mask = block_offsets(n_elements, True, BLOCK)
    keys = tl.load(key_ptr + linear, mask=mask, other=0)
    winner = linear.to(winner_ptr.dtype.element_ty)
    tl.atomic_max(winner_ptr + keys, winner, mask=mask & (keys < n_keys))


@triton.jit
def scatter(
    key_ptr, winner_ptr, x_ptr, y_ptr, n_elements, n_keys, width, key_shape, y_key_strides,
    outer_shape, x_outer_strides, inner_shape, x_inner_strides, y_inner_strides,
    CLAIMED: tl.constexpr, N_KEY: tl.constexpr, N_OUTER: tl.constexpr, N_INNER: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[key[i], d] = x[i, d]; CLAIMED: where winner[key[i]] == i.

    i counts through outer_shape, d through inner_shape (width elements), keys through key_shape.
    One program writes BLOCK elements.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    i = linear // width
    d = linear % width
    keys = tl.load(key_ptr + i, mask=mask, other=n_keys)
    mask = mask & (keys < n_keys)
    if CLAIMED:
        mask = mask & (tl.load(winner_ptr + keys, mask=mask, other=-1) == i)
    x_offsets = strided(i, outer_shape, x_outer_strides, N_OUTER)
    x_offsets += strided(d, inner_shape, x_inner_strides, N_INNER)
    y_offsets = strided(keys.to(linear.dtype), key_shape, y_key_strides, N_KEY)
    y_offsets += strided(d, inner_shape, y_inner_strides, N_INNER)
    tl.store(y_ptr + y_offsets, tl.load(x_ptr + x_offsets, mask=mask), mask=mask)


# ---- a stable sort of few keys, by counting (of many: radix.py) ---------------------------------


@triton.jit
def sort_few(
    key_ptr, key_out_ptr, order_out_ptr, n_elements, PART: tl.constexpr, BLOCK: tl.constexpr
):
    """Moves each key, and where it came from, behind those that are smaller and earlier equals.

    One program counts those of BLOCK keys, PART at a time.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n_elements
    key = tl.load(key_ptr + at, mask=mask, other=0)
    place = tl.zeros([BLOCK], tl.int32)
    for start in range(0, n_elements, PART):
        other_at = start + tl.arange(0, PART)
        other_mask = other_at < n_elements
        other = tl.load(key_ptr + other_at, mask=other_mask, other=0)[None, :]
        earlier = other_at[None, :] < at[:, None]
        goes_before = (other < key[:, None]) | ((other == key[:, None]) & earlier)
        place += tl.sum((goes_before & other_mask[None, :]).to(tl.int32), axis=1)
    tl.store(key_out_ptr + place, key, mask=mask)
    tl.store(order_out_ptr + place, at.to(tl.int64), mask=mask)


@triton.jit
def exclusive_scan(x_ptr, n_elements, BLOCK: tl.constexpr):
    """x[i] = sum of x[:i], and x[n_elements] the whole sum, in place.  One program does it all."""
    total = tl.full([], 0, tl.int64)
    for start in range(0, n_elements, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0)
        tl.store(x_ptr + offsets, total + tl.cumsum(x, axis=0) - x, mask=mask)
        total += tl.sum(x, axis=0)
    tl.store(x_ptr + n_elements, total)


# ---- reducing elements of equal keys, in order --------------------------------------------------


@triton.jit
def combine(a, b, OP: tl.constexpr):
    """One step of a reduction; NaN wins."""
    if OP == "prod":
        out = a * b
    elif OP == "amax":
        out = tl.where((b > a) | (b != b), b, a)
    elif OP == "amin":
        out = tl.where((b < a) | (b != b), b, a)
    else:
        out = a + b
    return out


@triton.jit
def deliver(y, acc, count, mask, OP: tl.constexpr, SELF: tl.constexpr):
    """Stores a finished reduction; SELF: into what is there."""
    if SELF:
        acc = combine(convert(tl.load(y, mask=mask, other=0), acc.dtype), acc, OP)
        count += 1
    if OP == "mean":
        total = acc
        if acc.dtype.is_floating():
            acc = total / count.to(acc.dtype)[:, None]
        else:
            divisor = count.to(acc.dtype)[:, None]
            acc = total // divisor
            acc = tl.where(total - acc * divisor < 0, acc - 1, acc)
    tl.store(y, convert(acc, y.dtype.element_ty), mask=mask)


@triton.jit
def segment_reduce(
    key_ptr, order_ptr, x_ptr, y_ptr, partial_ptr, count_ptr, n_elements, n_keys, width, chunk,
    key_shape, y_key_strides, outer_shape, x_outer_strides, inner_shape, x_inner_strides,
    y_inner_strides, OP: tl.constexpr, SELF: tl.constexpr, COMPUTE: tl.constexpr,
    N_KEY: tl.constexpr, N_OUTER: tl.constexpr, N_INNER: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[key] = OP of x[order[p]] over the run of positions p with that key (keys are sorted).

    Runs are cut where a chunk ends, so that no program walks far.  A run within one chunk goes to
    y, a piece of one to partial[chunk, 0] if it began before the chunk, else to partial[chunk, 1].
    One program takes the runs that begin at BLOCK_ROWS positions.
    """
    n_col_blocks = tl.cdiv(width, BLOCK_COLS)
    pid = tl.program_id(0).to(tl.int64)
    p = pid // n_col_blocks * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    d = (pid % n_col_blocks * BLOCK_COLS + tl.arange(0, BLOCK_COLS)).to(tl.int64)
    col_mask = d < width
    if not WIDE:
        d = d.to(tl.int32)
    here = p // chunk
    chunk_end = tl.minimum(here * chunk + chunk, n_elements)
    key = tl.load(key_ptr + p, mask=p < n_elements, other=n_keys)
    before = tl.load(key_ptr + p - 1, mask=(p > 0) & (p < n_elements), other=-1)
    from_before = (p == here * chunk) & (before == key)
    head = (key < n_keys) & ((p == here * chunk) | (before != key))
    x_inner = strided(d, inner_shape, x_inner_strides, N_INNER)
    at = p
    active = head
    acc = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    while tl.max(active.to(tl.int32), axis=0) > 0:
        place = tl.load(order_ptr + at, mask=active, other=0)
        if not WIDE:
            place = place.to(tl.int32)
        x_offsets = strided(place, outer_shape, x_outer_strides, N_OUTER)[:, None] + x_inner[None]
        x_mask = active[:, None] & col_mask[None, :]
        x = convert(tl.load(x_ptr + x_offsets, mask=x_mask, other=0), COMPUTE)
        acc = tl.where((at == p)[:, None], x, tl.where(active[:, None], combine(acc, x, OP), acc))
        at += active.to(at.dtype)
        active = active & (at < chunk_end)
        active = active & (tl.load(key_ptr + at, mask=active, other=-1) == key)
    count = at - p
    after = tl.load(key_ptr + at, mask=head & (at < n_elements), other=-1)
    whole = head & (after != key) & (from_before == 0)
    piece = head & (whole == 0)
    keys = key
    if not WIDE:
        keys = key.to(tl.int32)
    y_offsets = strided(keys, key_shape, y_key_strides, N_KEY)[:, None]
    y_offsets += strided(d, inner_shape, y_inner_strides, N_INNER)[None, :]
    deliver(y_ptr + y_offsets, acc, count, whole[:, None] & col_mask[None, :], OP, SELF)
    slot = here * 2 + 1 - from_before.to(tl.int64)
    tl.store(
        partial_ptr + slot[:, None] * width + d[None, :],
        acc,
        mask=piece[:, None] & col_mask[None, :],
    )
    tl.store(count_ptr + slot, count, mask=piece)


@triton.jit
def segment_finish(
    key_ptr, y_ptr, partial_ptr, count_ptr, n_elements, n_keys, n_chunks, width, chunk, key_shape,
    y_key_strides, inner_shape, y_inner_strides, OP: tl.constexpr, SELF: tl.constexpr,
    N_KEY: tl.constexpr, N_INNER: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Joins the pieces of runs that segment_reduce cut, in order.

    One program takes the runs that begin in BLOCK_ROWS chunks and end in later ones.
    """
    n_col_blocks = tl.cdiv(width, BLOCK_COLS)
    pid = tl.program_id(0).to(tl.int64)
    c = pid // n_col_blocks * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    d = (pid % n_col_blocks * BLOCK_COLS + tl.arange(0, BLOCK_COLS)).to(tl.int64)
    col_mask = d < width
    begin = c * chunk
    end = begin + chunk
    goes_on = end < n_elements
    key = tl.load(key_ptr + end - 1, mask=goes_on, other=n_keys)
    after = tl.load(key_ptr + end, mask=goes_on, other=-1)
    first = tl.load(key_ptr + begin, mask=goes_on, other=-1)
    before = tl.load(key_ptr + begin - 1, mask=goes_on & (c > 0), other=-1)
    starts = goes_on & (key < n_keys) & (after == key) & ((first != key) | (before != key))
    mask = starts[:, None] & col_mask[None, :]
    acc = tl.load(partial_ptr + (c * 2 + 1)[:, None] * width + d[None, :], mask=mask, other=0)
    count = tl.load(count_ptr + c * 2 + 1, mask=starts, other=0)
    at = c + 1
    active = starts
    while tl.max(active.to(tl.int32), axis=0) > 0:
        piece_mask = active[:, None] & col_mask[None, :]
        piece = tl.load(
            partial_ptr + (at * 2)[:, None] * width + d[None, :], mask=piece_mask, other=0
        )
        acc = tl.where(active[:, None], combine(acc, piece, OP), acc)
        count += tl.load(count_ptr + at * 2, mask=active, other=0)
        at += active.to(at.dtype)
        active = active & (at < n_chunks)
        active = active & (tl.load(key_ptr + at * chunk, mask=active, other=-1) == key)
    keys = key
    if not WIDE:
        keys = key.to(tl.int32)
        d = d.to(tl.int32)
    y_offsets = strided(keys, key_shape, y_key_strides, N_KEY)[:, None]
    y_offsets += strided(d, inner_shape, y_inner_strides, N_INNER)[None, :]
    deliver(y_ptr + y_offsets, acc, count, mask, OP, SELF)


# ---- masks --------------------------------------------------------------------------------------


@triton.jit
def truth(x, linear, mask, shape, strides, NDIM: tl.constexpr, COMPLEX: tl.constexpr):
    """1 where an element is not zero."""
    at = x + strided(linear, shape, strides, NDIM)
    is_set = convert(tl.load(at, mask=mask, other=0), tl.int1)
    if COMPLEX:
        is_set = is_set | convert(tl.load(at + 1, mask=mask, other=0), tl.int1)
    return is_set & mask


@triton.jit
def mask_count(
    x_ptr, count_ptr, n_elements, shape, x_strides, NDIM: tl.constexpr, COMPLEX: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """count[block] = how many of its elements are not zero."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    is_set = truth(x_ptr, linear, mask, shape, x_strides, NDIM, COMPLEX)
    tl.store(count_ptr + tl.program_id(0), tl.sum(is_set.to(tl.int64), axis=0))


@triton.jit
def nonzero(
    x_ptr, start_ptr, y_ptr, n_elements, shape, x_strides, dims, NDIM: tl.constexpr,
    N_DIMS: tl.constexpr, COMPLEX: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[rank, k] = the k-th coordinate, within dims, of each element that is not zero."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    is_set = truth(x_ptr, linear, mask, shape, x_strides, NDIM, COMPLEX)
    count = is_set.to(tl.int64)
    rank = tl.load(start_ptr + tl.program_id(0)) + tl.cumsum(count, axis=0) - count
    rest = linear
    for i in tl.static_range(N_DIMS):
        at = rest % dims[N_DIMS - 1 - i]
        rest = rest // dims[N_DIMS - 1 - i]
        tl.store(y_ptr + rank * N_DIMS + (N_DIMS - 1 - i), at.to(tl.int64), mask=is_set)


@triton.jit
def masked_select(
    mask_ptr, start_ptr, x_ptr, y_ptr, n_elements, shape, mask_strides, x_strides, n_parts,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[rank] = x[i] for each i where the mask holds; an element is n_parts machine words."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    is_set = truth(mask_ptr, linear, mask, shape, mask_strides, NDIM, False)
    count = is_set.to(tl.int64)
    rank = tl.load(start_ptr + tl.program_id(0)) + tl.cumsum(count, axis=0) - count
    x_offsets = strided(linear, shape, x_strides, NDIM)
    for part in range(n_parts):
        x = tl.load(x_ptr + x_offsets + part, mask=is_set)
        tl.store(y_ptr + rank * n_parts + part, x, mask=is_set)


@triton.jit
def masked_scatter(
    mask_ptr, start_ptr, x_ptr, y_ptr, n_elements, n_source, shape, mask_strides, n_parts,
    flag_ptr, where,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = x[rank] for each i where the mask holds; x and y are dense."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    is_set = truth(mask_ptr, linear, mask, shape, mask_strides, NDIM, False)
    count = is_set.to(tl.int64)
    rank = tl.load(start_ptr + tl.program_id(0)) + tl.cumsum(count, axis=0) - count
    report(flag_ptr, where, rank, is_set & (rank >= n_source))
    is_set = is_set & (rank < n_source)
    for part in range(n_parts):
        x = tl.load(x_ptr + rank * n_parts + part, mask=is_set)
        tl.store(y_ptr + linear * n_parts + part, x, mask=is_set)
