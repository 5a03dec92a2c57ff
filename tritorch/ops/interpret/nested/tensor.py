"""`NestedTensor`: the class of jagged tensors."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.arrays.nested import Jagged, NestedArray
from tritorch.core import dispatching, published
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor


class NestedTensor(Tensor):
    """A batch of tensors that differ in one dim, one after the other in `values()`."""

    __module__ = "tritorch.nested._internal.nested_tensor"
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(
        cls,
        values: Tensor,
        offsets: Tensor,
        *,
        lengths: Tensor | None = None,
        _ragged_idx: int = 1,
        _metadata_cache: dict[str, Any] | None = None,
        requires_grad: bool = False,
        **others: Any,
    ) -> Any:
        NestedTensor._check(values, offsets, lengths)
        structure = Jagged(offsets, lengths, _ragged_idx, _metadata_cache)
        plain = values if values._node is None and not values._leaf else _C.alias(values)
        out = _C.wrap(NestedArray(plain, structure))
        out._leaf = requires_grad
        return out

    @staticmethod
    def _check(values: Tensor, offsets: Tensor, lengths: Tensor | None) -> None:
        """Whether these make a jagged tensor."""
        if offsets is None:
            raise AssertionError("offsets must not be None")
        if offsets.ndim != 1:
            raise AssertionError(f"offsets must be 1D, but got {offsets.ndim}D")
        if type(values._array) is NestedArray:
            raise AssertionError("values must not be a NestedTensor")
        if values.device != offsets.device:
            raise AssertionError(
                f"values and offsets must be on the same device, but got "
                f"values.device={values.device} and offsets.device={offsets.device}"
            )
        if lengths is not None and lengths.shape[0] != offsets.shape[0] - 1:
            raise AssertionError(
                f"offsets and lengths batch sizes must match: offsets.shape[0] - 1 = "
                f"{offsets.shape[0] - 1}, lengths.shape[0] = {lengths.shape[0]}"
            )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done by `__new__`."""

    # ---- what PyTorch's has -------------------------------------------------------------------

    @property
    def _values(self) -> Tensor:  # type: ignore[override]
        return self._array.values

    @property
    def _offsets(self) -> Tensor:
        return self._array.structure.offsets

    @property
    def _lengths(self) -> Tensor | None:
        return self._array.structure.lengths

    @property
    def _ragged_idx(self) -> int:
        return self._array.structure.ragged

    @property
    def _size(self) -> tuple[Any, ...]:
        return self._array.shape

    @property
    def _strides(self) -> tuple[Any, ...]:
        return self._array.strides

    @property
    def _metadata_cache(self) -> dict[str, Any]:
        return self._array.structure.cache

    def offsets(self) -> Tensor:
        """Where each component starts along the ragged dim of the values, and the last one ends."""
        return self._array.structure.offsets

    def lengths(self) -> Tensor | None:
        """How long components are, where there are holes between them."""
        return self._array.structure.lengths

    # ---- extreme lengths, kept once they are known --------------------------------------------

    def _extreme(self, name: str, function: str) -> int:
        cache = self._metadata_cache
        if cache.get(name) is None:
            structure = self._array.structure
            lengths = structure.lengths if structure.lengths is not None else self._offsets.diff()
            cache[name] = stored_number(int(PUBLIC[function](lengths)))
        return cache[name].shape[0]

    def _get_max_seqlen(self) -> int:
        return self._extreme("max_seqlen", "amax")

    def _get_min_seqlen(self) -> int:
        return self._extreme("min_seqlen", "amin")

    @property
    def _max_seqlen(self) -> int:
        return self._get_max_seqlen()

    @property
    def _min_seqlen(self) -> int:
        return self._get_min_seqlen()

    @property
    def _max_seqlen_tensor(self) -> Tensor | None:
        return self._metadata_cache.get("max_seqlen")

    @_max_seqlen_tensor.setter
    def _max_seqlen_tensor(self, value: Tensor | None) -> None:
        self._metadata_cache["max_seqlen"] = value

    @property
    def _min_seqlen_tensor(self) -> Tensor | None:
        return self._metadata_cache.get("min_seqlen")

    @_min_seqlen_tensor.setter
    def _min_seqlen_tensor(self, value: Tensor | None) -> None:
        self._metadata_cache["min_seqlen"] = value

    @property
    def _maybe_max_seqlen(self) -> int | None:
        kept = self._max_seqlen_tensor
        return None if kept is None else kept.shape[0]

    @property
    def _maybe_min_seqlen(self) -> int | None:
        kept = self._min_seqlen_tensor
        return None if kept is None else kept.shape[0]

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        grad = f", requires_grad={self.requires_grad}" if self.requires_grad else ""
        if self.grad_fn is not None:
            grad = f", grad_fn={self.grad_fn}"
        with dispatching.without_modes():
            return (
                f"NestedTensor(size={self._size}, offsets={self._offsets}{grad}, "
                f"contiguous={self._is_contiguous_or_false()})"
            )

    # ---- as others take it apart --------------------------------------------------------------

    def _is_contiguous_or_false(self) -> bool:
        return self._array.is_contiguous()

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, Any]]:
        names = ["_values", "_offsets"]
        names += ["_lengths"] if self._lengths is not None else []
        for kept in ("_min_seqlen_tensor", "_max_seqlen_tensor"):
            names += [kept] if getattr(self, kept) is not None else []
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(
        inner_tensors: dict[str, Tensor], meta: dict[str, Any], outer_size: Any, outer_stride: Any
    ) -> NestedTensor:
        extremes = {"min_seqlen": "_min_seqlen_tensor", "max_seqlen": "_max_seqlen_tensor"}
        return NestedTensor(
            inner_tensors["_values"],
            offsets=inner_tensors["_offsets"],
            lengths=inner_tensors.get("_lengths"),
            requires_grad=meta["requires_grad"],
            _ragged_idx=meta["ragged_idx"],
            _metadata_cache={
                key: inner_tensors[name] for key, name in extremes.items() if name in inner_tensors
            },
        )


def stored_number(number: int) -> Tensor:
    """A number as the size of a tensor without elements."""
    return published.public.zeros(number, 0)


NestedArray.jagged_class = NestedTensor
