"""Kernels with one fault each.  The line of a fault is marked with its name."""

import triton
import triton.language as tl


@triton.jit
def element(x_ptr, i):
    return tl.load(x_ptr + i)  # bad address, called


@triton.jit
def bad_address(x_ptr, out_ptr, far, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if tl.program_id(0) == 2:
        x += element(x_ptr + far, i)  # bad address
    tl.store(out_ptr + i, x)


@triton.jit
def bad_mask(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i * i, i.to(tl.float32), mask=i <= n)  # bad mask


@triton.jit
def mask_of_another_shape(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=tl.arange(0, 2 * BLOCK) < 5)  # mask of another shape
    tl.store(x_ptr + i, x)


@triton.jit
def type_error(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + i, x << 1)  # type error


@triton.jit
def endless(x_ptr, step):
    i = tl.program_id(0) * 0
    while i < 10:
        i += step  # endless
    tl.store(x_ptr, i.to(tl.float32))


@triton.jit
def failed_assertion(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(i < 9, "i is small")  # failed assertion
    tl.store(x_ptr + i, i.to(tl.float32))


@triton.jit
def element_at(x_ptr, out_ptr, i, masked: tl.constexpr):
    x = tl.load(x_ptr + i, mask=i < 0) if masked else tl.load(x_ptr + i)  # element at
    tl.store(out_ptr, x)
