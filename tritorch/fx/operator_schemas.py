"""Arguments of calls in the order of what is called, and the signatures of operators."""

from __future__ import annotations

import enum
import functools
import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core.device import device
from tritorch.core.layout import layout
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket, namespace
from tritorch.schema import table
from tritorch.schema.signature import FunctionSchema

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]

_Parameter = inspect.Parameter


@compatibility(is_backward_compatible=False)
class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# ---- signatures ----------------------------------------------------------------------------------


class _Package:
    """What types of ATen mean by `__torch__.torch.classes...`: nothing in particular."""

    def __getattr__(self, name: str) -> Any:
        return Any if name.startswith("__") else self


# Names in the texts of ATen's types.
_TYPES: dict[str, Any] = {name: getattr(typing, name) for name in typing.__all__}
_TYPES |= {
    "Tensor": Tensor, "Device": device, "Layout": layout, "number": numbers.Number, "Future": Any,
    "AnyEnumType": enum.Enum, "QScheme": Any, "__torch__": _Package(), "NoneType": type(None),
    "Storage": UntypedStorage, "t": typing.TypeVar("t"), "PyObject": Any, "Stream": Any,
}  # fmt: skip


def _torchscript_type_to_python_type(ts_type: Any) -> Any:
    """A type of a schema as one of Python."""
    return eval(ts_type.annotation_str, dict(_TYPES))


@functools.cache
def _signature(schema: FunctionSchema) -> inspect.Signature:
    parameters: list[_Parameter] = []
    for argument in schema.arguments:
        kind: Any = _Parameter.POSITIONAL_OR_KEYWORD
        if argument.kwarg_only:
            kind = _Parameter.KEYWORD_ONLY
        if argument.name == "from":  # a word of Python: no keyword can be called so
            kind = _Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        parameters.append(
            _Parameter(
                "input" if argument.name == "self" else argument.name,
                kind,
                default=argument.default_value
                if argument.has_default_value()
                else _Parameter.empty,
                annotation=_torchscript_type_to_python_type(argument.type),
            )
        )
    results = [_torchscript_type_to_python_type(each.type) for each in schema.returns]
    result = results[0] if len(results) == 1 else tuple(results) if results else None
    return inspect.Signature(parameters, return_annotation=result)


def _torchscript_schema_to_signature(ts_schema: FunctionSchema) -> inspect.Signature:
    return _signature(ts_schema)


@functools.cache
def _aten_name(op: Any) -> str | None:
    """The operator of ATen that a function of the package is: linalg_norm of torch.linalg.norm."""
    module = getattr(op, "__module__", None) or ""
    first, _, rest = module.partition(".")
    if first not in ("tritorch", "torch") or not isinstance(op, _C.Gate):
        return None
    name = op.__name__
    if op.__qualname__.startswith("Tensor."):
        return None
    if rest == "nn.functional":
        stem = name if table.overloads(name) else name.replace("log", "log_", 1)
        return stem if _is_operator(op, stem) else None
    if rest not in ("", "linalg", "special", "fft", "sparse"):
        return None
    stem = f"_sparse_{name}" if rest == "sparse" else f"{rest}_{name}" if rest else name
    return next((each for each in (stem, name) if table.overloads(each)), None)


def _is_operator(op: Any, name: str) -> bool:
    """Whether a function of nn.functional takes just what an operator takes: relu, which can be
    told to write into its input, does not, nor do losses, whose reductions are words."""
    signature = _python_signature(op)
    if signature is None or isinstance(
        getattr(signature.parameters.get("reduction"), "default", 0), str
    ):
        return False
    wanted = set(signature.parameters) - {"out"}
    return any(
        wanted
        == {"input" if a.name == "self" else a.name for a in table.find(name, each).arguments}
        for each in table.overloads(name)
    )


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operator's overloads; None where it has no schemas.

    return_schemas: with the schemas."""
    if isinstance(op, OpOverload):
        schemas = [op._schema]
    elif isinstance(op, OpOverloadPacket):
        schemas = [getattr(op, name)._schema for name in op.overloads()]
    else:
        name = _aten_name(op)
        if name is None:
            return (None, None) if return_schemas else None
        packet = getattr(namespace("aten"), name)
        schemas = [getattr(packet, each)._schema for each in packet.overloads()]
    signatures = [_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def _bound(signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target: Any, args: Any, kwargs: Any) -> None:
    """Raises where a call, as its one overload that fits says, writes into an argument."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    fitting = [s for signature, s in zip(signatures, schemas) if _bound(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so "
            "operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


# ---- types ---------------------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
def create_type_hint(x: Any) -> Any:
    """The hint of a list or tuple of types, `list[int]` of [int, int]; else x itself."""
    if not isinstance(x, (list, tuple)):
        return x
    try:
        wrap = (lambda t: list[t]) if isinstance(x, list) else (lambda t: tuple[t, ...])  # type: ignore[valid-type]
        base = x[0] if x else Any
        for kind in x:
            if issubclass(kind, base):
                continue
            if not issubclass(base, kind):
                return wrap(Any)
            base = kind
        return wrap(base)
    except Exception:
        warnings.warn(
            f"We were not able to successfully create type hint from the type {x}", stacklevel=2
        )
    return x


@compatibility(is_backward_compatible=False)
def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of a type fits a parameter of another."""
    if signature_type is argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(each, argument_type) for each in typing.get_args(signature_type))
    if origin is list:
        return _matches_items(typing.get_args(signature_type)[0], argument_type, signature_type)
    if signature_type is int and getattr(argument_type, "__name__", "") == "dtype":
        return True  # ATen numbers dtypes
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _matches_items(item: Any, argument_type: Any, signature_type: Any) -> bool:
    if argument_type is int and item is int:  # one number for a list of them
        return True
    if not inspect.isclass(item):
        warnings.warn(
            f"Does not support nested parametric types, got {signature_type}. Please file a bug.",
            stacklevel=3,
        )
        return False
    inside = typing.get_args(argument_type)
    if typing.get_origin(argument_type) is list:
        return issubclass(inside[0], item)
    if typing.get_origin(argument_type) is not tuple:
        return False
    return inside in ((), ((),)) or all(each is ... or issubclass(each, item) for each in inside)


# ---- arguments -----------------------------------------------------------------------------------


def _normalized(
    signature: inspect.Signature, args: Any, kwargs: Any, only_kwargs: bool
) -> ArgsKwargsPair | None:
    """The arguments with the signature's defaults; None where it takes any number of them."""
    plain = (_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
    names = list(signature.parameters)
    if any(p.kind not in plain for p in signature.parameters.values()):
        if names != ["input", "from", "to", "generator"]:
            return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    count = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(
        tuple(bound.arguments[name] for name in names[:count]),
        {name: bound.arguments[name] for name in names[count:]},
    )


_args_kwargs_to_normalized_args_kwargs = _normalized


def _python_signature(target: Any) -> inspect.Signature | None:
    plain = target.__wrapped__ if isinstance(target, _C.Gate) else target
    try:
        return inspect.signature(inspect.unwrap(plain))
    except (TypeError, ValueError):
        return None


@compatibility(is_backward_compatible=False)
def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """A function's arguments with its defaults; None where it does not say them.

    arg_types, kwarg_types: types of arguments, which choose among an operator's overloads."""
    kwargs = kwargs or {}
    if not isinstance(target, (OpOverload, OpOverloadPacket)) and hasattr(target, "_op"):
        target = target._op
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        if isinstance(target, types.BuiltinFunctionType):
            return None
        signature = _python_signature(target)
        if signature is None:
            return None
        return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
    fitting = [each for each in signatures if _bound(each, args, kwargs)]
    if len(fitting) == 1:
        return _normalized(fitting[0], args, kwargs, normalize_to_only_use_kwargs)
    if not fitting:
        signature = _python_signature(target) if isinstance(target, _C.Gate) else None
        if signature is None or _bound(signature, args, kwargs) is None:
            return None
        return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
    if arg_types is None and kwarg_types is None:
        shown = "\n".join(map(str, fitting))
        raise RuntimeError(
            f"Tried to normalize arguments to {getattr(target, '__name__', target)} but the schema "
            "match was ambiguous! Please provide argument types to the normalize_arguments() call. "
            f"Available schemas:\n{shown}"
        )
    for signature in signatures:
        of_types = _bound(signature, arg_types or (), kwarg_types or {})
        if of_types is not None and all(
            type_matches(signature.parameters[name].annotation, kind)
            for name, kind in of_types.arguments.items()
        ):
            return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
    return None


@compatibility(is_backward_compatible=False)
def _normalize_function_or_error(target: Any, args: Any, *rest: Any, **options: Any) -> Any:
    """`normalize_function`, which raises where there is nothing to give."""
    found = normalize_function(target, args, *rest, **options)
    if found is None:
        raise RuntimeError(f"Failed to normalize function {target} with args {args}")
    return found


@compatibility(is_backward_compatible=False)
def normalize_module(
    root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """A submodule's arguments with the defaults of its forward; None of modules that are not
    torch.nn's."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    from tritorch import nn

    if getattr(nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def aligned_arguments(a: Any, b: Any) -> tuple[Any, Any] | None:
    """The arguments of two calls of one function as values of the same parameters."""
    if a.op != "call_function":
        return None
    signature = _python_signature(a.target)
    if signature is None:
        return None
    found = []
    for node in (a, b):
        try:
            pair = _normalized(signature, node.args, node.kwargs, True)
        except TypeError:
            return None
        if pair is None:
            return None
        found.append(pair.kwargs)
    return found[0], found[1]
