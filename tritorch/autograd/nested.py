"""Functions of nested values, which the former kind of `autograd.Function` took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core.tensor import Tensor


def _unknown(obj: Any, accepted: str | None) -> ValueError:
    name = type(obj).__name__
    hint = f". Accepted types: {accepted}, or lists/tuples of them" if accepted else ""
    return ValueError(
        f"Auto nesting doesn't know how to process an input object of type {name}{hint}"
    )


def _nested_map(
    condition: Callable[[Any], bool], fn: Callable[[Any], Any], condition_msg: str | None = None
) -> Callable[[Any], Any]:
    """A function that maps what is so, in lists, tuples and dicts, which it makes anew."""

    def _map(obj: Any) -> Any:
        if condition(obj):
            return fn(obj)
        if obj is None:
            return None
        if isinstance(obj, (list, tuple)):
            mapped = [_map(each) for each in obj]
            return type(obj)(*mapped) if hasattr(obj, "_fields") else type(obj)(mapped)
        if isinstance(obj, dict):
            return {key: _map(value) for key, value in obj.items()}
        raise _unknown(obj, condition_msg)

    return _map


def _jit_unwrap_structured(obj: Any) -> Any:
    return obj._jit_unwrap() if hasattr(obj, "_jit_unwrap") else obj


def _iter_filter(
    condition: Callable[[Any], bool], allow_unknown: bool = False,
    condition_msg: str | None = None, conversion: Callable[[Any], Any] | None = None,
) -> Callable[[Any], Iterator[Any]]:  # fmt: skip
    """A function that yields what is so, from lists, tuples and values of dicts."""

    def _iter(obj: Any) -> Iterator[Any]:
        if conversion is not None:
            obj = conversion(obj)
        if condition(obj):
            yield obj
        elif isinstance(obj, (list, tuple, dict)):
            for each in obj.values() if isinstance(obj, dict) else obj:
                yield from _iter(each)
        elif obj is not None:
            if not allow_unknown:
                raise _unknown(obj, condition_msg)
            yield obj

    return _iter


def _unflatten(input: Any, proto: Any) -> Any:
    """The elements of a flat list in the nesting that `proto` has, where it is not None."""

    def take(rest: Any, like: Any) -> Any:
        if hasattr(like, "_jit_wrap"):
            return like._jit_wrap(rest)
        if not isinstance(like, (list, tuple)):
            return rest[0], rest[1:]
        found = []
        for each in like:
            value = None
            if each is not None:
                value, rest = take(rest, each)
            found.append(value)
        return type(like)(found), rest

    return take(input, proto)[0]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


_iter_tensors = _iter_filter(_is_tensor, False, "Tensors", _jit_unwrap_structured)
_iter_tensors_permissive = _iter_filter(_is_tensor, True, "Tensors (permissive)")
_iter_None_tensors = _iter_filter(
    lambda value: value is None or isinstance(value, Tensor), False, "Tensors or None"
)
_map_tensor_data = _nested_map(_is_tensor, lambda tensor: tensor.data, "Tensors")
