"""What kernels of other projects do that ours do not."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scaled(x_ptr, scale, eps, n, BLOCK: tl.constexpr):
    """Numbers among the arguments are scalars of Triton; so are sizes, be they 1 or not."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    half = scale.to(tl.float32) / 2
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(x_ptr + i, x * half.to(x.dtype) + eps.to(x.dtype), mask=i < n)


@triton.jit
def row_sums(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    """A loop's variable is a tensor, and its bounds differ between programs."""
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(row + 1):
        k64 = k.to(tl.int64)
        for start in tl.range(0, n_cols, BLOCK):
            i = start.to(tl.int64) + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + k64 * n_cols + i, mask=i < n_cols, other=0.0)
    tl.store(y_ptr + row, tl.sum(total))


@triton.jit
def functions(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, libdevice.tanh(x))
    tl.store(y_ptr + BLOCK + i, libdevice.rsqrt(x))
    tl.store(y_ptr + 2 * BLOCK + i, libdevice.exp(x) + tl.erf(x))
    tl.store(y_ptr + 3 * BLOCK + i, libdevice.pow(x, x) - libdevice.lgamma(x))
    tl.store(y_ptr + 4 * BLOCK + i, libdevice.rint(x * 3).to(tl.float32))


@triton.jit
def collatz(x_ptr, steps_ptr, n):
    """Programs leave early, take different ways, and loop for different times."""
    i = tl.program_id(0)
    if i >= n:
        return
    x = tl.load(x_ptr + i)
    steps = 0
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
            if x > 100:
                tl.atomic_add(steps_ptr + n, 1)
        steps += 1
    tl.store(steps_ptr + i, steps)


@triton.jit
def locked_sum(x_ptr, sum_ptr, lock_ptr, BLOCK: tl.constexpr):
    """Programs wait for a lock; the first one stores, others add."""
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(lock_ptr + 1)
    i = tl.arange(0, BLOCK)
    if count == 0:
        tl.atomic_xchg(lock_ptr + 1, 1)
    else:
        x += tl.load(sum_ptr + i)
    tl.store(sum_ptr + i, x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def largest(a, i, b, j):
    take = (b > a) | ((b == a) & (j < i))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def joined(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def combined(x_ptr, y_ptr, best_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Reductions and scans by functions of several values, and blocks put together and apart."""
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + rows
    x = tl.load(x_ptr + row * COLS + cols)
    place = tl.broadcast_to(cols, [ROWS, COLS])
    best, at = tl.reduce((x, place), 1, largest)
    tl.store(best_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS), best + at)
    even, odd = tl.split(tl.reshape(x, [ROWS, COLS // 2, 2]))
    turned = tl.reshape(tl.join(odd, even), [ROWS, COLS])
    _, running = tl.associative_scan((turned * 0 + 0.5, turned), 1, joined)
    tl.store(y_ptr + row * COLS + cols, tl.trans(tl.trans(running)))


@triton.jit
def eighths(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Arithmetic of float8 rounds to float8."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x + x)
    tl.store(y_ptr + BLOCK + i, (x.to(tl.float32) * 3).to(x.dtype))


@triton.jit(noinline=True)
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@triton.jit(noinline=True)
def noted(out_ptr, i, value):
    if i % 3 == 0:
        return
    tl.store(out_ptr + i, value)


@triton.jit
def kept_apart(x_ptr, y_ptr, out_ptr):
    i = tl.program_id(0)
    noted(out_ptr, i, gcd(tl.load(x_ptr + i), tl.load(y_ptr + i)) + gcd(i, i + 6))


@triton.jit
def extremes_without_other(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Wrong on purpose: lanes past the end take part, with whatever a GPU gives there."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr, tl.max(x, 0))
    tl.store(y_ptr + 1, tl.min(x, 0))
    tl.store(y_ptr + 2, tl.sum(x, 0))


@triton.jit
def any_without_other(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Wrong on purpose, of bools."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr, tl.max(x.to(tl.int32), 0) != 0)


@triton.jit
def block_without_padding(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Wrong on purpose: a block past the end, of which nobody says how it is padded."""
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(y_ptr, tl.sum(tl.load(block, boundary_check=(0,)), 0))
