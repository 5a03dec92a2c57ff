"""Many tensors in one launch: optimizer steps, gradient scaling, norms.

A table has one row of int64 for each tensor: its number of elements, the row of its numbers, and
the addresses of its arrays (dense, in one order of elements).  One program works on a chunk;
`chunks` has for each (row << 32) | place.
"""

import triton
import triton.language as tl

from . import optim_rules
from .copy import convert
from .pointwise import maximum, minimum
from .reduction import larger
from .scalar.elementary import sign, sqrt
from .softmax import number

# ---- what formulas are written with; see Note [One formula, three runners] -----------------------


@triton.jit
def absolute(x):
    return tl.abs(x)


@triton.jit
def where(condition, x, y):
    return tl.where(condition, x, y)


@triton.jit
def power(base, exponent):
    return tl.exp(exponent * tl.log(base))


_SCOPE = {"__name__": __name__, "tl": tl} | {
    each.__name__: each for each in (sqrt, absolute, sign, maximum, minimum, where, power)
}


def formula(name):
    """A function of optim_rules.py as a jit function."""
    return triton.jit(optim_rules.rebound(name, _SCOPE))


prepare = formula("prepare")


# ---- the table -----------------------------------------------------------------------------------


@triton.jit
def address(table, row, column, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr):
    """The array in a column of a row."""
    array = tl.load(table + row * WIDTH + column).to(tl.pointer_type(KIND))
    return tl.multiple_of(array, 16) if ALIGNED else array


@triton.jit
def chunk_of(table, chunks, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """This program's row, and where its chunk begins and ends."""
    chunk = tl.load(chunks + tl.program_id(0))
    row = chunk >> 32
    begin = (chunk & 0xFFFFFFFF) * CHUNK
    return row, begin, tl.minimum(begin + CHUNK, tl.load(table + row * WIDTH))


@triton.jit
def clear(ptr, begin, end, BLOCK: tl.constexpr):
    """Zeros from begin to end."""
    for start in range(begin, end, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        tl.store(ptr + offsets, tl.zeros((BLOCK,), ptr.dtype.element_ty), mask=offsets < end)


# ---- steps ---------------------------------------------------------------------------------------


@triton.jit
def step_block(
    table, row, start, end, numbers, inverse, RULE: tl.constexpr, MODE: tl.constexpr,
    SCALED: tl.constexpr, MAXIMIZE: tl.constexpr, COUPLED: tl.constexpr, DECOUPLED: tl.constexpr,
    ZERO: tl.constexpr, KINDS: tl.constexpr, COMPUTE: tl.constexpr, MASKED: tl.constexpr,
    ALIGNED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`step` of BLOCK elements; MASKED: of those before end."""
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < end if MASKED else None
    values = ()
    for k in tl.static_range(len(KINDS)):
        if KINDS[k] is None:
            values = values + (0,)
        else:
            ptr = address(table, row, 2 + k, KINDS[k], ALIGNED, WIDTH)
            values = values + (convert(tl.load(ptr + offsets, mask=mask), COMPUTE),)
    p, g, unscaled = prepare(
        values[0], values[1], inverse, numbers[0], numbers[1], SCALED, MAXIMIZE, COUPLED, DECOUPLED
    )
    new = RULE(p, g, *values[2:], *numbers[2:], MODE)
    for k in tl.static_range(len(KINDS)):
        if k == 1:
            if SCALED or ZERO:
                ptr = address(table, row, 2 + k, KINDS[k], ALIGNED, WIDTH)
                kept = tl.zeros_like(unscaled) if ZERO else unscaled
                tl.store(ptr + offsets, convert(kept, KINDS[k]), mask=mask)
        elif KINDS[k] is not None:
            ptr = address(table, row, 2 + k, KINDS[k], ALIGNED, WIDTH)
            value = new[k - 1 if k > 1 else 0]
            tl.store(ptr + offsets, convert(value, KINDS[k]), mask=mask)


@triton.jit(do_not_specialize=["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"])
def step(
    table_ptr, chunks_ptr, numbers_ptr, scale_ptr, found_ptr, n0, n1, n2, n3, n4, n5, n6, n7,
    RULE: tl.constexpr, MODE: tl.constexpr, SCALED: tl.constexpr, MAXIMIZE: tl.constexpr,
    COUPLED: tl.constexpr, DECOUPLED: tl.constexpr, ZERO: tl.constexpr, KINDS: tl.constexpr,
    COMPUTE: tl.constexpr, N_NUMBERS: tl.constexpr, ON_DEVICE: tl.constexpr,
    CHECKED: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of an optimizer: p, state = RULE(p, g, state, numbers) for every element.

    The table's columns are p, g, state; KINDS has their types, None for absent state.  numbers:
    coupled and decoupled decay and the rule's own, as the bits of a float64, or ON_DEVICE from
    numbers_ptr.  SCALED: g /= scale first.  CHECKED: nothing happens if found is not 0.  ZERO: g is
    0 in the end, in either case.
    """
    WIDTH: tl.constexpr = 2 + len(KINDS)
    row, begin, end = chunk_of(table_ptr, chunks_ptr, WIDTH, CHUNK)
    if CHECKED:
        if tl.load(found_ptr) != 0:
            if ZERO:
                clear(address(table_ptr, row, 3, KINDS[1], ALIGNED, WIDTH), begin, end, BLOCK)
            return
    numbers = ()
    bits = (n0, n1, n2, n3, n4, n5, n6, n7)
    for k in tl.static_range(N_NUMBERS):
        if ON_DEVICE:
            at = tl.load(table_ptr + row * WIDTH + 1) * N_NUMBERS + k
            numbers = numbers + (tl.load(numbers_ptr + at).to(COMPUTE),)
        else:
            numbers = numbers + (number(bits[k], COMPUTE),)
    inverse = 1.0
    if SCALED:
        inverse = (1.0 / tl.load(scale_ptr).to(tl.float64)).to(COMPUTE)
    full = begin + (end - begin) // BLOCK * BLOCK  # whole blocks need no mask: wide accesses
    for start in range(begin, full, BLOCK):
        step_block(
            table_ptr, row, start, end, numbers, inverse, RULE, MODE, SCALED, MAXIMIZE, COUPLED,
            DECOUPLED, ZERO, KINDS, COMPUTE, False, ALIGNED, WIDTH, BLOCK,
        )  # fmt: skip
    if full < end:
        step_block(
            table_ptr, row, full, end, numbers, inverse, RULE, MODE, SCALED, MAXIMIZE, COUPLED,
            DECOUPLED, ZERO, KINDS, COMPUTE, True, ALIGNED, WIDTH, BLOCK,
        )  # fmt: skip


@triton.jit
def option(x):
    """A number from its bits, or from memory."""
    if x.dtype.is_ptr():
        return tl.load(x).to(tl.float64)
    else:
        return number(x, tl.float64)


@triton.jit(do_not_specialize=["o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"])
def advance(
    table_ptr, numbers_ptr, found_ptr, n_rows, o0, o1, o2, o3, o4, o5, o6, o7, RULE: tl.constexpr,
    KINDS: tl.constexpr, N_OPTIONS: tl.constexpr, N_NUMBERS: tl.constexpr, CHECKED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """counts, numbers = RULE(counts, options) for every row, in float64.

    The table's columns are the counts.  options: lr, coupled and decoupled decay, the rule's own.
    """
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < n_rows
    if CHECKED:
        mask = mask & (tl.load(found_ptr + tl.zeros_like(rows)) == 0)
    given = (o0, o1, o2, o3, o4, o5, o6, o7)
    zeros = tl.zeros((BLOCK,), tl.float64)
    options = ()
    for k in tl.static_range(N_OPTIONS):
        options = options + (zeros + option(given[k]),)
    counts = ()
    for k in tl.static_range(len(KINDS)):
        bits = tl.load(table_ptr + rows * len(KINDS) + k, mask=mask, other=0)
        ptr = bits.to(tl.pointer_type(KINDS[k]))
        counts = counts + (tl.load(ptr, mask=mask, other=0).to(tl.float64),)
    found = RULE(*counts, *options[3:])
    numbers = (options[1], 1 - options[0] * options[2])
    for k in tl.static_range(len(KINDS)):
        bits = tl.load(table_ptr + rows * len(KINDS) + k, mask=mask, other=0)
        tl.store(bits.to(tl.pointer_type(KINDS[k])), found[k].to(KINDS[k]), mask=mask)
    for k in tl.static_range(N_NUMBERS - 2):
        numbers = numbers + (found[len(KINDS) + k],)
    for k in tl.static_range(N_NUMBERS):
        tl.store(numbers_ptr + rows * N_NUMBERS + k, numbers[k], mask=mask)


# ---- gradients -----------------------------------------------------------------------------------


@triton.jit
def rescale_block(
    ptr, factor, start, end, KIND: tl.constexpr, COMPUTE: tl.constexpr, SCALED: tl.constexpr,
    CHECKED: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`rescale` of BLOCK elements: which are not finite."""
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < end if MASKED else None
    x = convert(tl.load(ptr + offsets, mask=mask, other=0 if MASKED else None), COMPUTE)
    bad = tl.zeros((BLOCK,), tl.int32)
    if CHECKED:
        bad = tl.where(x - x == 0, 0, 1)
    if SCALED:
        y = convert(x * tl.load(factor).to(COMPUTE), KIND)
        tl.store(ptr + offsets, y, mask=mask)
    return bad


@triton.jit
def rescale(
    table_ptr, chunks_ptr, factor_ptr, found_ptr, KIND: tl.constexpr, COMPUTE: tl.constexpr,
    SCALED: tl.constexpr, CHECKED: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """x *= factor if SCALED; CHECKED: found = 1 if any x is not finite."""
    row, begin, end = chunk_of(table_ptr, chunks_ptr, 3, CHUNK)
    ptr = address(table_ptr, row, 2, KIND, ALIGNED, 3)
    bad = tl.zeros((BLOCK,), tl.int32)
    full = begin + (end - begin) // BLOCK * BLOCK
    for start in range(begin, full, BLOCK):
        bad = bad | rescale_block(
            ptr, factor_ptr, start, end, KIND, COMPUTE, SCALED, CHECKED, False, BLOCK
        )
    if full < end:
        bad = bad | rescale_block(
            ptr, factor_ptr, full, end, KIND, COMPUTE, SCALED, CHECKED, True, BLOCK
        )
    if CHECKED:
        if tl.max(bad, axis=0) != 0:
            tl.store(found_ptr, 1.0)


@triton.jit
def norm_block(
    total, ptr, start, end, COMPUTE: tl.constexpr, ORDER: tl.constexpr, MASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`norms` goes on with BLOCK elements."""
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < end if MASKED else None
    x = tl.abs(convert(tl.load(ptr + offsets, mask=mask, other=0 if MASKED else None), COMPUTE))
    if ORDER == 0:
        total = larger(total, x)
    elif ORDER == 1:
        total += x
    else:
        total += x * x
    return total


@triton.jit
def norms(
    table_ptr, chunks_ptr, y_ptr, KIND: tl.constexpr, COMPUTE: tl.constexpr, ORDER: tl.constexpr,
    ALIGNED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = the norm of each chunk, of order 1, 2 or 0 for the largest."""
    row, begin, end = chunk_of(table_ptr, chunks_ptr, 3, CHUNK)
    ptr = address(table_ptr, row, 2, KIND, ALIGNED, 3)
    total = tl.zeros((BLOCK,), COMPUTE)
    full = begin + (end - begin) // BLOCK * BLOCK
    for start in range(begin, full, BLOCK):
        total = norm_block(total, ptr, start, end, COMPUTE, ORDER, False, BLOCK)
    if full < end:
        total = norm_block(total, ptr, full, end, COMPUTE, ORDER, True, BLOCK)
    if ORDER == 0:
        y = tl.reduce(total, 0, larger)
    else:
        y = tl.sum(total, axis=0)
    if ORDER == 2:
        y = tl.sqrt(y)
    tl.store(y_ptr + tl.program_id(0), y)
