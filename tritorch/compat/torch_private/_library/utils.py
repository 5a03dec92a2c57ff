"""Questions about operators and their schemas that packages ask."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tritorch.core.naming import is_ours
from tritorch.core.tensor import Tensor
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.ops.record.schema import is_tensor
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tags import Tag
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import ListType, OptionalType


class Kernel:
    """A function, and the line that registered it."""

    def __init__(self, func: Callable[..., Any], source: str) -> None:
        self.func, self.source = func, source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class RegistrationHandle:
    """Takes a registration back."""

    def __init__(self, on_destroy: Callable[[], None]) -> None:
        self._on_destroy = on_destroy

    def destroy(self) -> None:
        """Takes it back."""
        self._on_destroy()


def get_source(stacklevel: int) -> str:
    """The file and line of a caller; 1: of who calls this."""
    frame = inspect.getframeinfo(sys._getframe(stacklevel))
    return f"{frame.filename}:{frame.lineno}"


def program_source() -> str:
    """The file and line of the innermost caller outside of the package."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# ---- names ---------------------------------------------------------------------------------------


def parse_namespace(qualname: str) -> tuple[str, str]:
    """The two parts of "namespace::name"."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return parts[0], parts[1]


def lookup_op(qualname: str) -> OpOverload:
    """The operator of "namespace::name.overload"."""
    space, name = parse_namespace(qualname)
    stem, _, overload = name.partition(".")
    return getattr(getattr(namespace(space), stem), overload or "default")


def is_builtin(op: OpOverload) -> bool:
    """Whether an operator is one of PyTorch's."""
    return op.namespace in ("aten", "prim", "prims")


def is_out(op: OpOverload) -> bool:
    """Whether what an operator writes is where its results go."""
    return Tag.out in op.tags


def is_inplace(op: OpOverload) -> bool:
    """Whether an operator writes its first argument and gives it back."""
    return Tag.inplace in op.tags


def mutates_and_returns_first_arg(op: OpOverload) -> bool:
    """Whether an operator of ATen's is a form in place."""
    schema = op._schema
    if op.namespace != "aten" or len(schema.returns) != 1 or not schema.arguments:
        return False
    first, result = schema.arguments[0], schema.returns[0]
    return (
        first.is_write
        and result.alias_info is not None
        and result.alias_info.after_set == first.alias_info.after_set
        and all(a.alias_info is None for a in schema.arguments[1:])
    )


def can_generate_trivial_fake_impl(op: OpOverload) -> bool:
    """Whether an operator's results follow from its schema: it writes, and gives nothing new."""
    if is_builtin(op):
        return False
    return is_out(op) or is_inplace(op) or (op._schema.is_mutable and not op._schema.returns)


def generate_trivial_fake_impl(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """These results."""
    if is_out(op):
        written = tuple(kwargs[a.name] for a in op._schema.arguments if a.is_write)
        return written[0] if len(written) == 1 else written
    return args[0] if is_inplace(op) else None


# ---- schemas -------------------------------------------------------------------------------------


def is_functional_schema(schema: Any, *, allow_valid_view: bool = False) -> bool:
    """Whether a call writes nothing and gives something that is new; allow_valid_view: or a view of
    its one tensor."""
    if not isinstance(schema, FunctionSchema):  # a text, or another package's
        schema = parse_schema(str(schema))
    if schema.is_mutable or not schema.returns:
        return False
    if not any(r.alias_info is not None for r in schema.returns):
        return True
    tensors = [sum(isinstance(a.type, TensorType) for a in each)
               for each in (schema.arguments, schema.returns)]  # fmt: skip
    return allow_valid_view and tensors == [1, 1]


def is_tensor_like_type(typ: Any) -> bool:
    """Whether a type is Tensor, or Tensor or None."""
    inner = typ.getElementType() if isinstance(typ, OptionalType) else typ
    return isinstance(inner, TensorType)


def is_tensorlist_like_type(typ: Any) -> bool:
    """Whether a type is a list of tensors, which or whose items may be None."""
    inner = typ.getElementType() if isinstance(typ, OptionalType) else typ
    return isinstance(inner, ListType) and is_tensor_like_type(inner.getElementType())


def has_kwarg_only_args(schema: FunctionSchema) -> bool:
    """Whether there are arguments by keyword alone."""
    return any(a.kwarg_only for a in schema.arguments)


def has_kwarg_only_tensors(schema: FunctionSchema) -> bool:
    """Whether there are tensors by keyword alone."""
    return any(a.kwarg_only and is_tensor(a) for a in schema.arguments)


def has_tensor_arg(schema: FunctionSchema) -> bool:
    """Whether there are tensors among the arguments."""
    return any(map(is_tensor, schema.arguments))


def get_device_arg_index(schema: FunctionSchema) -> int | None:
    """The place of the argument `device`."""
    return next((i for i, a in enumerate(schema.arguments) if a.name == "device"), None)


def mutated_args_kwargs(schema: FunctionSchema) -> tuple[list[int], list[str]]:
    """The places, and the names of keywords, of what is written."""
    places = [i for i, a in enumerate(schema.arguments) if a.is_write and not a.kwarg_only]
    return places, [a.name for a in schema.arguments if a.is_write and a.kwarg_only]


# ---- calls ---------------------------------------------------------------------------------------


def fill_defaults(
    schema: FunctionSchema, args: Any, kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call with all arguments."""
    given, named = list(args), {}
    for place, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            named[argument.name] = kwargs.get(argument.name, argument.default_value)
        elif place >= len(args):
            given.append(argument.default_value)
    return tuple(given), named


def zip_schema(
    schema: FunctionSchema, args: Any, kwargs: dict[str, Any]
) -> Iterable[tuple[Argument, Any]]:
    """The arguments that a call gives, with their values."""
    for place, argument in enumerate(schema.arguments):
        if place < len(args) and not argument.kwarg_only:
            yield argument, args[place]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def iter_tensors(
    args: Iterable[Any], kwargs: dict[str, Any], allowed_nesting: int = 1
) -> Iterator[Tensor]:
    """The tensors of a call, those in lists too."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif allowed_nesting > 0 and isinstance(value, (tuple, list)):
            yield from iter_tensors(value, {}, allowed_nesting - 1)
