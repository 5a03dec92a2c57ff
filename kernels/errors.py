"""The device error flag: how a kernel says that an input is bad, without trapping."""

import triton
import triton.language as tl


@triton.jit
def report(flag, where, value, bad, SLOTS: tl.constexpr = 4096):
    """Marks the launch `where` where `bad` is true, with one of the values that are.

    flag: [any, -, (launch, value) of each slot]; the host reads it when it synchronises.  Of
    several bad elements any may win; the stores cost nothing but a predicate when none is bad.
    """
    slot = 2 + 2 * ((where >> 16) % SLOTS)
    at = flag + slot + tl.zeros_like(bad).to(tl.int32)
    tl.store(at + 1, value.to(tl.int64), mask=bad)
    tl.store(at, tl.zeros_like(value).to(tl.int64) + where, mask=bad)
    tl.store(flag + tl.zeros_like(bad).to(tl.int32), 1, mask=bad)
