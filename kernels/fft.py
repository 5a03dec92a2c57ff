"""Fourier transforms of lines: one program transforms some lines at once, in registers.

# Note [Transforms of lines]
A line of N = R1 R2 .. points goes through one stage a radix (Stockham's, whose results come in
order).  In a stage of radix R, with n the product of the radices so far and its own, S = N / n and
m = n / R,
    y[j + k N / R] = sum over r of w_n^(p r) x[q + S (R p + r)] w_R^(r k),    j = q + S p < N / R:
what a thread stores lies beside what its neighbours store, in every stage.  A thread holds the R
numbers of a j, whose transform (kernels/dft.py) is arithmetic alone.  Between stages numbers change
threads by way of the scratch, which each program has for itself and which stays in the caches; a
barrier stands before and after what is stored there.

Elements have an index g in the line that the whole transform is about, of which a program may
transform every so manieth only (a line too long is transformed in two steps: columns, then rows of
a matrix).  How the numbers of a line are made of what memory has (`loaded`), and the other way
round (`stored`), is said by a word:

    complex    as they are
    real       real numbers; stored, the real parts alone
    pairs      elements 2 g and 2 g + 1 of a line of real numbers: real and imaginary part
    mirrored   the half of a line that is its own conjugate backwards; stored, that half
    folded     the same of an even number, as the transform of pairs: half as many points
    unfolded   the transform of pairs, as that of the real numbers that it had (`halves`)
    scratch    for another round of the same program
"""

import triton
import triton.language as tl

from .dft import dft, load_pair, store_pair, times
from .matrices.matmul import offsets_of
from .pointwise import strided
from .scalar.elementary import negated
from .softmax import number

# ---- lines in memory -----------------------------------------------------------------------------


@triton.jit
def loaded(x, base, g, mask, real, LOAD: tl.constexpr, N: tl.constexpr):
    """Number g of a line of N in memory; x: (pointer, stride, ...)."""
    if LOAD == "complex":
        return load_pair(x[0], base + g * x[1], mask)
    elif LOAD == "real":
        re = tl.load(x[0] + base + g * x[1], mask=mask, other=0.0)
        return re, tl.zeros_like(re)
    elif LOAD == "pairs":
        at = x[0] + base + 2 * g * x[1]
        return tl.load(at, mask=mask, other=0.0), tl.load(at + x[1], mask=mask, other=0.0)
    elif LOAD == "mirrored":
        beyond = 2 * g > N
        re, im = load_pair(x[0], base + tl.where(beyond, N - g, g) * x[1], mask)
        return re, tl.where(beyond, negated(im), im)
    else:  # folded: x[g] + conj x[N - g] + i conj(w) (x[g] - conj x[N - g])
        a, b = load_pair(x[0], base + g * x[1], mask)
        c, d = load_pair(x[0], base + (N - g) * x[1], mask)
        b = tl.where(g == 0, 0.0, b)
        d = tl.where(g == 0, 0.0, d)
        u, v = load_pair(real, g, mask)
        e, f = times(a - c, b + d, u, negated(v))
        return a + c - f, b - d + e


@triton.jit
def stored(y, base, g, mask, re, im, STORE: tl.constexpr, N: tl.constexpr):
    """Number g of a line of N to memory; y: (pointer, stride, ...)."""
    if STORE == "complex":
        store_pair(y[0], base + g * y[1], mask, re, im)
    elif STORE == "real":
        tl.store(y[0] + base + g * y[1], re, mask=mask)
    elif STORE == "pairs":
        at = y[0] + base + 2 * g * y[1]
        tl.store(at, re, mask=mask)
        tl.store(at + y[1], im, mask=mask)
    else:  # mirrored
        store_pair(y[0], base + g * y[1], mask & (2 * g <= N), re, im)


@triton.jit
def halves(
    z, z_base, z_stride, y, y_base, k, mask, real, scale, ONESIDED: tl.constexpr,
    SWAP: tl.constexpr, N,
):  # fmt: skip
    """Numbers k and N - k of the transform of 2 N reals, from z, that of their pairs.

    With e = (z[k] + conj z[N - k]) / 2 and o = -i (z[k] - conj z[N - k]) / 2 times w_2N^k they are
    e + o and conj(e - o); those above N are their conjugates.  SWAP: the conjugates of all.
    """
    a, b = load_pair(z, z_base + k * z_stride, mask)
    c, d = load_pair(z, z_base + tl.where(k == 0, 0, N - k) * z_stride, mask)
    u, v = load_pair(real, k, mask)
    half = scale * 0.5
    e, f = (a + c) * half, (b - d) * half
    g, h = times((b + d) * half, (c - a) * half, u, v)
    sign = -1.0 if SWAP else 1.0
    store_pair(y[0], y_base + k * y[1], mask, e + g, (f + h) * sign)
    store_pair(y[0], y_base + (N - k) * y[1], mask, e - g, (h - f) * sign)
    if not ONESIDED:
        inner = mask & (k > 0)
        store_pair(y[0], y_base + (2 * N - k) * y[1], inner, e + g, (f + h) * -sign)
        store_pair(y[0], y_base + (N + k) * y[1], inner & (2 * k < N), e - g, (h - f) * -sign)


# ---- programs ------------------------------------------------------------------------------------


@triton.jit
def place(WIDTH: tl.constexpr, ROWS: tl.constexpr, ACROSS: tl.constexpr):
    """Each number's row and its place there; ACROSS: rows lie side by side."""
    t = tl.arange(0, ROWS * WIDTH)
    if ACROSS:
        return t % ROWS, t // ROWS
    else:
        return t // WIDTH, t % WIDTH


@triton.jit
def in_scratch(row, i, N: tl.constexpr, ROWS: tl.constexpr, ACROSS: tl.constexpr):
    if ACROSS:
        return i * ROWS + row
    else:
        return row * N + i


@triton.jit
def line_of(
    tile, row, inner, shape, at, WIDE: tl.constexpr, NDIM: tl.constexpr, ROWS: tl.constexpr
):
    """A line's number, the offset of its transform, and its number there; at: as in `stages`."""
    line = tile * ROWS + row
    if WIDE:
        line = line.to(tl.int64)
    return line, strided(line // inner, shape, at[2], NDIM), line % inner


@triton.jit
def from_line(
    x, tile, j, row, n_lines, inner, shape, real, before, LOAD: tl.constexpr,
    SWAP: tl.constexpr, LENGTH: tl.constexpr, COUNT: tl.constexpr, R: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """R numbers, COUNT apart, of a line in memory."""
    line, base, among = line_of(tile, row, inner, shape, x, WIDE, NDIM, ROWS)
    re, im = (), ()
    for r in tl.static_range(R):
        g = offsets_of(j + r * COUNT, x[3], WIDE) + among * x[4]
        mask = (j < COUNT) & (line < n_lines) & (g < x[5])
        a, b = loaded(x, base, g, mask, real, LOAD, LENGTH)
        if SWAP:
            a, b = b, a
        if before is not None:
            c, d = load_pair(before, g, mask)
            a, b = times(a, b, c, d)
        re += (a,)
        im += (b,)
    return re, im


@triton.jit
def from_scratch(
    scratch, table, j, row, mask, R: tl.constexpr, SPAN: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """R numbers, SPAN apart, of what the stage before has left, times powers of w."""
    p = j // SPAN
    start = j % SPAN + SPAN * R * p
    re, im, turns, turns_im = (), (), (0.0,), (0.0,)
    for r in tl.static_range(R):
        at = in_scratch(row, start + r * SPAN, N, ROWS, ACROSS)
        a, b = load_pair(scratch, at, mask)
        if r > 0 and R * SPAN < N:
            if (r & (r - 1)) == 0:
                c, d = load_pair(table, r * p * SPAN, mask)
            else:  # a product of few others: errors stay small
                e, f = turns[r & (r - 1)], turns_im[r & (r - 1)]
                c, d = times(turns[r & -r], turns_im[r & -r], e, f)
            turns += (c,)
            turns_im += (d,)
            a, b = times(a, b, c, d)
        re += (a,)
        im += (b,)
    return re, im


@triton.jit
def to_scratch(
    scratch, after, j, row, mask, re, im, ROUND: tl.constexpr, SIZE: tl.constexpr,
    R: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """For other threads, behind a barrier."""
    tl.debug_barrier()
    for r in tl.static_range(R):
        k = j + r * (N // R)
        a, b = re[r], im[r]
        if ROUND == "back":
            a, b = b, a
        if after is not None:
            c, d = load_pair(after, k, mask & (k < SIZE))
            a, b = times(a, b, c, d)
        if ROUND == "forth":
            a, b = b, a
        store_pair(scratch, in_scratch(row, k, N, ROWS, ACROSS), mask, a, b)
    tl.debug_barrier()


@triton.jit
def to_line(
    y, tile, j, row, n_lines, inner, shape, scale, after, steps, re, im, ROUND: tl.constexpr,
    STORE: tl.constexpr, SWAP: tl.constexpr, LENGTH: tl.constexpr, COUNT: tl.constexpr,
    R: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """R numbers, COUNT apart, to a line in memory."""
    line, base, among = line_of(tile, row, inner, shape, y, WIDE, NDIM, ROWS)
    for r in tl.static_range(R):
        k = j + r * COUNT
        g = offsets_of(k, y[3], WIDE) + among * y[4]
        mask = (j < COUNT) & (line < n_lines) & (g < y[5])
        a, b = re[r], im[r]
        if ROUND == "back":
            a, b = b, a
        if steps is not None:  # w^(k among), as a product of two
            c, d = load_pair(steps, k * among % 1024, mask)
            e, f = load_pair(steps, 1024 + k * among // 1024, mask)
            c, d = times(c, d, e, f)
            a, b = times(a, b, c, d)
        if after is not None:
            c, d = load_pair(after, g, mask)
            a, b = times(a, b, c, d)
        if SWAP:
            a, b = b, a
        stored(y, base, g, mask, a * scale, b * scale, STORE, LENGTH)


@triton.jit
def stages(
    x, y, scratch, table, real, before, after, steps, tile, n_lines, inner,
    shape, scale, ROUND: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr,
    SWAP_IN: tl.constexpr, SWAP_OUT: tl.constexpr, LENGTH: tl.constexpr, N: tl.constexpr,
    RADICES: tl.constexpr, WIDTHS: tl.constexpr, SPANS: tl.constexpr, ROWS: tl.constexpr,
    ACROSS: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A tile of lines, from x or the scratch to y or the scratch.

    x and y: (pointer, stride, strides of other dims, step of g from element to element and from
    line to line, how many g there are).  ROUND: the "only" one, or "forth" and "back".
    """
    for i in tl.static_range(len(RADICES)):
        row, j = place(WIDTHS[i], ROWS, ACROSS)
        mask = (j < N // RADICES[i]) & (tile * ROWS + row < n_lines)
        if i == 0 and LOAD != "scratch":
            re, im = from_line(
                x, tile, j, row, n_lines, inner, shape, real, before, LOAD, SWAP_IN, LENGTH,
                N // RADICES[i], RADICES[i], NDIM, WIDE, ROWS,
            )  # fmt: skip
        else:
            re, im = from_scratch(
                scratch, table, j, row, mask, RADICES[i], SPANS[i], N, ROWS, ACROSS
            )
        re, im = dft(re, im, table, RADICES[i], N)
        if i < len(RADICES) - 1:
            to_scratch(scratch, None, j, row, mask, re, im, "only", N, RADICES[i], N, ROWS, ACROSS)
        elif STORE == "scratch":
            to_scratch(
                scratch,
                after,
                j,
                row,
                mask,
                re,
                im,
                ROUND,
                N if ROUND == "forth" else LENGTH,
                RADICES[i],
                N,
                ROWS,
                ACROSS,
            )
        else:
            to_line(
                y, tile, j, row, n_lines, inner, shape, scale, after, steps, re, im, ROUND,
                STORE, SWAP_OUT, LENGTH, N // RADICES[i], RADICES[i], NDIM, WIDE, ROWS,
            )  # fmt: skip


@triton.jit
def transform(
    x_ptr, y_ptr, scratch_ptr, table_ptr, real_ptr, before_ptr, middle_ptr, after_ptr, step_ptr,
    n_lines, inner, x_size, y_size, x_stride, y_stride, x_step, x_line_step, y_step, y_line_step,
    scale, shape, x_strides, y_strides, LOAD: tl.constexpr, STORE: tl.constexpr,
    ONESIDED: tl.constexpr, SWAP_IN: tl.constexpr, SWAP_OUT: tl.constexpr, BACK: tl.constexpr,
    COMPUTE: tl.constexpr, LENGTH: tl.constexpr, N: tl.constexpr, RADICES: tl.constexpr,
    WIDTHS: tl.constexpr, SPANS: tl.constexpr, ROWS: tl.constexpr, ACROSS: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """y = scale after F(before x): n_lines lines of N points each (Note [Transforms of lines]).

    inner: how many lines are one transform's.  before_ptr, after_ptr: factors by g; step_ptr:
    powers of the root of a transform in two steps; middle_ptr: factors between a transform and its
    inverse.  SWAP_IN, SWAP_OUT: real and imaginary parts change places: with both, it is the
    inverse.  BACK: they do before after_ptr, too.  A program goes round the tiles of ROWS lines.
    """
    factor = number(scale, COMPUTE)
    x = (x_ptr, x_stride, x_strides, x_step, x_line_step, x_size)
    y = (y_ptr, y_stride, y_strides, y_step, y_line_step, y_size)
    if scratch_ptr is not None:
        parts = N * ROWS * (2 if tl.float64 == COMPUTE else 1)
        scratch_ptr += tl.program_id(0).to(tl.int64) * parts
    for tile in range(tl.program_id(0), tl.cdiv(n_lines, ROWS), tl.num_programs(0)):
        if middle_ptr is not None:
            stages(
                x, y, scratch_ptr, table_ptr, real_ptr, before_ptr, middle_ptr, None, tile, n_lines,
                inner, shape, factor, "forth", LOAD, "scratch", SWAP_IN, False, LENGTH, N, RADICES,
                WIDTHS, SPANS, ROWS, ACROSS, NDIM, WIDE,
            )  # fmt: skip
        stages(
            x, y, scratch_ptr, table_ptr, real_ptr, before_ptr, after_ptr, step_ptr, tile, n_lines,
            inner, shape, factor, "back" if BACK or middle_ptr is not None else "only",
            LOAD if middle_ptr is None else "scratch", "scratch" if STORE == "unfolded" else STORE,
            SWAP_IN, SWAP_OUT, LENGTH, N, RADICES, WIDTHS, SPANS, ROWS, ACROSS, NDIM, WIDE,
        )  # fmt: skip
        if STORE == "unfolded":
            row, k = place(HALF, ROWS, ACROSS)
            line, base, _ = line_of(tile, row, inner, shape, y, WIDE, NDIM, ROWS)
            mask = (2 * k <= LENGTH) & (line < n_lines)
            halves(
                scratch_ptr, in_scratch(row, 0, N, ROWS, ACROSS), ROWS if ACROSS else 1, y, base, k,
                mask, real_ptr, factor, ONESIDED, SWAP_OUT, LENGTH,
            )  # fmt: skip


@triton.jit
def unfold(
    z_ptr, y_ptr, real_ptr, n_lines, n, y_stride, scale, shape, y_strides, ONESIDED: tl.constexpr,
    SWAP: tl.constexpr, COMPUTE: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y, the transforms of n_lines lines of 2 n reals, from those of their pairs (`halves`)."""
    per_line = n // 2 + 1
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if not WIDE:
        index = index.to(tl.int32)
    line, k = index // per_line, index % per_line
    y = (y_ptr, y_stride)
    halves(
        z_ptr, line * n, 1, y, strided(line, shape, y_strides, NDIM), k, line < n_lines, real_ptr,
        number(scale, COMPUTE), ONESIDED, SWAP, n,
    )  # fmt: skip
