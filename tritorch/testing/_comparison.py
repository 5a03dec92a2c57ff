"""assert_close: of nested lists and dicts of tensors, arrays and numbers.

Inputs are taken apart into pairs of leaves (`originate_pairs`). Each kind of pair says by its
constructor whether it takes two inputs (`UnsupportedInputs` if not) and compares them by `compare`;
the classes are PyTorch's, so that test suites derive their own from them.
"""

from __future__ import annotations

import abc
import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from tritorch.core.dtype import complex128, dtype as Dtype, float16, float32, float64, int64
from tritorch.core.layout import strided
from tritorch.core.promotion import promote_types
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.comparison import isclose
from tritorch.ops.shape import factory
from tritorch.ops.shape.factory import as_tensor
from tritorch.testing._mismatch import (
    ErrorMeta,
    default_tolerances,
    get_tolerances,
    make_scalar_mismatch_msg,
    make_tensor_mismatch_msg,
)

_OLD_TOLERANCES: dict[Dtype, tuple[float, float]] = {
    float16: (1e-3, 1e-3),
    float32: (1e-4, 1e-5),
    float64: (1e-5, 1e-8),
}


def _unwrap_dtensor_for_comparison(actual: Any, expected: Any) -> tuple[Any, Any]:
    """The inputs themselves: no tensor is spread over processes yet."""
    return actual, expected


class UnsupportedInputs(Exception):
    """What a pair's constructor raises for inputs that are another pair's."""


class Pair(abc.ABC):
    """Two inputs and their place among those that were given; a subclass compares them.

    A pair gets all options of the comparison, takes its own and hands the others up.
    """

    def __init__(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **unknown_parameters: Any
    ) -> None:
        self.actual, self.expected, self.id = actual, expected, id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: type | tuple[type, ...]) -> None:
        if not all(isinstance(x, cls) for x in inputs):
            raise UnsupportedInputs

    def _fail(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    @abc.abstractmethod
    def compare(self) -> None:
        """Raises an ErrorMeta where the inputs differ."""

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """What else the repr shows: names of attributes, or names with values."""
        return ()

    def __repr__(self) -> str:
        shown = [("id", self.id), ("actual", self.actual), ("expected", self.expected)]
        for extra in self.extra_repr():
            shown.append((extra, getattr(self, extra)) if isinstance(extra, str) else extra)
        lines = "".join(f"    {name}={value!s},\n" for name, value in shown)
        return f"{type(self).__name__}(\n{lines})"


class ObjectPair(Pair):
    """Two objects of any type, which are equal by `==`."""

    def compare(self) -> None:
        """Raises unless they are equal."""
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(
                ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.", id=self.id
            ) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Two inputs of which one at least is None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            raise UnsupportedInputs
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        """Raises unless both are None."""
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Two booleans, Python's or NumPy's."""

    def __init__(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **other_parameters: Any
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return bool, np.bool_

    def _process_inputs(self, actual: Any, expected: Any, *, id: tuple[Any, ...]) -> Any:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return [self._to_bool(x, id=id) for x in (actual, expected)]

    def _to_bool(self, bool_like: Any, *, id: tuple[Any, ...]) -> bool:
        if isinstance(bool_like, (bool, np.bool_)):
            return bool(bool_like)
        raise ErrorMeta(TypeError, f"Unknown boolean type {type(bool_like)}.", id=id)

    def compare(self) -> None:
        """Raises unless they are the same."""
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, Python's or NumPy's, equal or close."""

    _TYPE_TO_DTYPE: ClassVar = {int: int64, float: float64, complex: complex128}
    _NUMBER_TYPES = tuple(_TYPE_TO_DTYPE)

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: tuple[Any, ...] = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_dtype: bool = False,
        **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        kinds = [self._TYPE_TO_DTYPE[type(x)] for x in (actual, expected)]
        self.rtol, self.atol = get_tolerances(*kinds, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return (*self._NUMBER_TYPES, np.number)

    def _process_inputs(self, actual: Any, expected: Any, *, id: tuple[Any, ...]) -> Any:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return [self._to_number(x, id=id) for x in (actual, expected)]

    def _to_number(self, number_like: Any, *, id: tuple[Any, ...]) -> Any:
        if isinstance(number_like, np.number):
            return number_like.item()
        if isinstance(number_like, self._NUMBER_TYPES):
            # A subclass (bool, an IntEnum) counts as the number that it is.
            plain = type(number_like) in self._NUMBER_TYPES
            return number_like if plain else int(number_like)  # type: ignore[call-overload]
        raise ErrorMeta(TypeError, f"Unknown number type {type(number_like)}.", id=id)

    def compare(self) -> None:
        """Raises unless they are close, and of one type where that counts."""
        a, b = self.actual, self.expected
        if self.check_dtype and type(a) is not type(b):
            self._fail(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.")
        if a == b or (self.equal_nan and a != a and b != b):
            return
        apart = abs(a - b)
        if math.isfinite(apart) and apart <= self.atol + self.rtol * abs(b):
            return
        self._fail(AssertionError, make_scalar_mismatch_msg(a, b, rtol=self.rtol, atol=self.atol))

    def extra_repr(self) -> Sequence[str]:
        """The tolerances and what is compared."""
        return "rtol", "atol", "equal_nan", "check_dtype"


class TensorLikePair(Pair):
    """Two tensors, or what can be made into one, of related types."""

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: tuple[Any, ...] = (),
        allow_subclasses: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_device: bool = True,
        check_dtype: bool = True,
        check_layout: bool = True,
        check_stride: bool = False,
        **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(
            actual, expected, id=id, allow_subclasses=allow_subclasses
        )
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=self.id)
        self.equal_nan = equal_nan
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def _process_inputs(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...], allow_subclasses: bool
    ) -> Any:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not allow_subclasses and type(actual) is not type(expected)):
            raise UnsupportedInputs
        tensors = [self._to_tensor(x) for x in (actual, expected)]
        for tensor in tensors:
            self._check_supported(tensor, id=id)
        return tensors

    def _to_tensor(self, tensor_like: Any) -> Tensor:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            return as_tensor(tensor_like)
        except Exception:
            raise UnsupportedInputs from None

    def _check_supported(self, tensor: Tensor, *, id: tuple[Any, ...]) -> None:
        """Every layout that there is can be compared."""

    def compare(self) -> None:
        """Raises unless attributes that count are the same, and values close."""
        a, b = self.actual, self.expected
        self._compare_attributes(a, b)
        if any(x.device.type == "meta" for x in (a, b)):
            return
        self._compare_values(*self._equalize_attributes(a, b))

    def _compare_attributes(self, actual: Tensor, expected: Tensor) -> None:
        def require_same(name: str, a: Any, b: Any) -> None:
            if a != b:
                self._fail(
                    AssertionError,
                    f"The values for attribute '{name}' do not match: {a} != {b}.",
                )

        require_same("shape", actual.shape, expected.shape)
        if self.check_layout:
            require_same("layout", actual.layout, expected.layout)
        if self.check_device:
            require_same("device", actual.device, expected.device)
        if self.check_dtype:
            require_same("dtype", actual.dtype, expected.dtype)
        if self.check_stride:
            require_same("stride()", actual.stride(), expected.stride())

    def _equalize_attributes(self, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
        """Both on one device, of one dtype and one layout."""
        x, y = actual.detach(), expected.detach()
        if x.is_quantized:
            x = x.dequantize()
        if y.is_quantized:
            y = y.dequantize()
        if x.device != y.device:
            x, y = x.cpu(), y.cpu()
        if x.dtype is not y.dtype:
            kind = promote_types(x.dtype, y.dtype)
            x, y = x.to(kind), y.to(kind)
        if x.layout is not y.layout:
            x, y = x.to_dense(), y.to_dense()
        return x, y

    def _compare_values(self, actual: Tensor, expected: Tensor) -> None:
        if actual.layout is strided or actual.is_nested:
            self._compare_close(actual, expected)
        else:
            self._compare_sparse(actual, expected)

    def _compare_sparse(self, a: Tensor, b: Tensor) -> None:
        """By their parts: indices are equal, values close."""
        kind = a.layout.name[7:].upper()
        if a.is_sparse:
            if a.is_coalesced() != b.is_coalesced():
                a, b = a.coalesce(), b.coalesce()
            parts = {"indices": (a._indices(), b._indices())}
        else:
            names = ("crow_indices", "col_indices")
            if kind not in ("CSR", "BSR"):
                names = ("ccol_indices", "row_indices")
            parts = {name: (getattr(a, name)(), getattr(b, name)()) for name in names}
        if a._nnz() != b._nnz():
            self._fail(
                AssertionError,
                f"The number of specified values in sparse {'COO' if a.is_sparse else kind} "
                f"tensors does not match: {a._nnz()} != {b._nnz()}",
            )
        for name, (x, y) in parts.items():
            self._compare_close(x, y, 0.0, 0.0, f"Sparse {kind} {name}")
        self._compare_close(a._array.values, b._array.values, identifier=f"Sparse {kind} values")

    def _compare_close(
        self,
        a: Tensor,
        b: Tensor,
        rtol: float | None = None,
        atol: float | None = None,
        identifier: str | None = None,
    ) -> None:
        rtol = self.rtol if rtol is None else rtol
        atol = self.atol if atol is None else atol
        if a.dtype.is_floating_point and a.dtype.itemsize == 1:
            close = isclose(a.float(), b.float(), rtol, atol, equal_nan=self.equal_nan)
        else:
            close = isclose(a, b, rtol, atol, equal_nan=self.equal_nan)
        if bool(close.all()):
            return
        if a.is_nested:
            a, b, close = (x.contiguous().values() for x in (a, b, close))
        if a.ndim:
            text = make_tensor_mismatch_msg(
                a, b, close, rtol=rtol, atol=atol, identifier=identifier
            )
        else:
            text = make_scalar_mismatch_msg(
                a.item(), b.item(), rtol=rtol, atol=atol, identifier=identifier
            )
        self._fail(AssertionError, text)

    def extra_repr(self) -> Sequence[str]:
        """The tolerances and what is compared."""
        return (
            "rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout",
            "check_stride",
        )  # fmt: skip


# ---- from inputs to pairs ------------------------------------------------------------------------


def originate_pairs(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]],
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    id: tuple[Any, ...] = (),
    **options: Any,
) -> list[Pair]:
    """The pairs that there are to compare, each of the first kind that takes its two inputs."""

    def below(keys: Any) -> list[Pair]:
        found: list[Pair] = []
        for key in keys:
            found += originate_pairs(
                actual[key],
                expected[key],
                pair_types=pair_types,
                sequence_types=sequence_types,
                mapping_types=mapping_types,
                id=(*id, key),
                **options,
            )
        return found

    if all(isinstance(x, sequence_types) and not isinstance(x, str) for x in (actual, expected)):
        if len(actual) != len(expected):
            raise ErrorMeta(
                AssertionError,
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
                id=id,
            )
        return below(range(len(actual)))
    if isinstance(actual, mapping_types) and isinstance(expected, mapping_types):
        missing = set(expected.keys()) - set(actual.keys())  # type: ignore[attr-defined]
        extra = set(actual.keys()) - set(expected.keys())  # type: ignore[attr-defined]
        if missing or extra:
            raise ErrorMeta(
                AssertionError,
                f"The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(extra)}",
                id=id,
            )
        keys = list(actual.keys())  # type: ignore[attr-defined]
        with contextlib.suppress(TypeError):  # keys of several types stay in their order
            keys.sort()
        return below(keys)
    for kind in pair_types:
        with contextlib.suppress(UnsupportedInputs):
            return [kind(actual, expected, id=id, **options)]
    raise ErrorMeta(
        TypeError,
        f"No comparison pair was able to handle inputs of type {type(actual)} and "
        f"{type(expected)}.",
        id=id,
    )


def not_close_error_metas(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    **options: Any,
) -> list[ErrorMeta]:
    """What differs, pair by pair; nothing where all is close."""
    __tracebackhide__ = True
    actual, expected = _unwrap_dtensor_for_comparison(actual, expected)
    error: Exception | None = None
    try:
        pairs = originate_pairs(
            actual,
            expected,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as meta:
        error = meta.to_error()
    if error is not None:  # raised here, it does not carry the walk's frames
        raise error
    found = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as meta:
            found.append(meta)
    return found


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere."""
    __tracebackhide__ = True
    found = not_close_error_metas(
        actual,
        expected,
        pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    if found:
        raise found[0].to_error(msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """assert_close as it was once: wider tolerances, and anything that makes a tensor."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = factory.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = factory.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected, dtype_precisions=_OLD_TOLERANCES)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
        msg=msg or None,
    )  # fmt: skip
