"""Transforms of the parts of a tensor along a dim: CatTransform, StackTransform."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.transform import Transform
from tritorch.distributions.utils import (
    _sum_rightmost,
    lazy_property,
    torch,
)


class _SequenceTransform(Transform):
    """Transforms of the parts that `_parts` cuts, put together by `_join`."""

    transforms: list[Transform]
    _size_name: str

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def _size(self) -> int:
        raise NotImplementedError

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _checked(self, x: Tensor, name: str, kind: str = "") -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for {kind or name} with {x.dim()} dimensions"
            )
        if x.size(self.dim) != self._size:
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal "
                f"{self._size_name} {self._size}"
            )
        return self._parts(x)

    def _call(self, x: Tensor) -> Tensor:
        parts = self._checked(x, "x", "tensor")
        return self._join([t(part) for t, part in zip(self.transforms, parts)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = self._checked(y, "y", "tensor")
        return self._join([t.inv(part) for t, part in zip(self.transforms, parts)], self.dim)

    def _jacobians(self, x: Tensor, y: Tensor) -> list[Tensor]:
        pairs = zip(self.transforms, self._checked(x, "x"), self._checked(y, "y"))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in pairs]

    @property
    def bijective(self) -> bool:
        """Whether all are."""
        return all(t.bijective for t in self.transforms)


class CatTransform(_SequenceTransform):
    """Transforms of consecutive pieces of a tensor, of given lengths along a dim."""

    _arguments = ("transforms", "dim", "lengths")
    _size_name = "length"

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )

    @lazy_property
    def event_dim(self) -> int:
        """The most dims of an event of any part."""
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    _size = property(lambda self: self.length)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        return torch.cat(list(parts), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = [
            _sum_rightmost(term, self.event_dim - t.event_dim)
            for t, term in zip(self.transforms, self._jacobians(x, y))
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return self._join(terms, dim) if dim < 0 else functools.reduce(operator.add, terms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The parts' domains."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The parts' codomains."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_SequenceTransform):
    """Transforms of the slices of a tensor along a dim."""

    _arguments = ("transforms", "dim")
    _size_name = "len(transforms)"

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    _size = property(lambda self: len(self.transforms))

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        return torch.stack(list(parts), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join(self._jacobians(x, y), self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The slices' domains."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The slices' codomains."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
