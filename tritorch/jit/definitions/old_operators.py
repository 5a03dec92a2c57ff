"""Operators as archives of older versions meant them, as PyTorch's operator_upgraders say.

`name__number` is one of the overloads of `name`.  The compiler reads this source; nothing imports
it.
"""

# ruff: noqa: F821, UP006, UP035, UP045
from typing import List, Optional


def div__0(self: Tensor, other: Tensor) -> Tensor:
    if self.is_floating_point() or other.is_floating_point():
        return self.div(other)
    return self.div(other, rounding_mode="trunc")


def div__1(self: Tensor, other: number) -> Tensor:
    if self.is_floating_point() or isinstance(other, float):
        return self.div(other)
    return self.div(other, rounding_mode="trunc")


def div__2(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    if self.is_floating_point() or other.is_floating_point() or out.is_floating_point():
        return torch.div(self, other, out=out)
    return torch.div(self, other, rounding_mode="trunc", out=out)


def div___0(self: Tensor, other: Tensor) -> Tensor:
    if self.is_floating_point() or other.is_floating_point():
        return self.div_(other)
    return self.div_(other, rounding_mode="trunc")


def div___1(self: Tensor, other: number) -> Tensor:
    if self.is_floating_point() or isinstance(other, float):
        return self.div_(other)
    return self.div_(other, rounding_mode="trunc")


def full__0(
    size: List[int],
    fill_value: number,
    *,
    dtype: Optional[int] = None,
    layout: Optional[int] = None,
    device: Optional[Device] = None,
    pin_memory: Optional[bool] = None,
) -> Tensor:
    if dtype is None:
        return torch.full(
            size, float(fill_value), dtype=dtype, layout=layout, device=device,
            pin_memory=pin_memory,
        )  # fmt: skip
    return torch.full(
        size, fill_value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


def full__1(size: List[int], fill_value: number, *, out: Tensor) -> Tensor:
    return torch.full(size, fill_value, out=out)


def linspace__1(start: number, end: number, steps: Optional[int] = None, *, out: Tensor) -> Tensor:
    count = 100 if steps is None else steps
    return torch.linspace(start, end, count, out=out)


def logspace__1(
    start: number, end: number, steps: Optional[int] = None, base: float = 10.0, *, out: Tensor
) -> Tensor:
    count = 100 if steps is None else steps
    return torch.logspace(start, end, count, base, out=out)


def linspace__0(
    start: number,
    end: number,
    steps: Optional[int] = None,
    *,
    dtype: Optional[int] = None,
    layout: Optional[int] = None,
    device: Optional[Device] = None,
    pin_memory: Optional[bool] = None,
) -> Tensor:
    count = 100 if steps is None else steps
    return torch.linspace(
        start, end, count, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


def logspace__0(
    start: number,
    end: number,
    steps: Optional[int] = None,
    base: float = 10.0,
    *,
    dtype: Optional[int] = None,
    layout: Optional[int] = None,
    device: Optional[Device] = None,
    pin_memory: Optional[bool] = None,
) -> Tensor:
    count = 100 if steps is None else steps
    return torch.logspace(
        start, end, count, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


def gelu__0(self: Tensor) -> Tensor:
    return torch.gelu(self, approximate="none")
