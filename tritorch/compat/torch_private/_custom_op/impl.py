"""`CustomOp`: an operator that is declared first, and told later what computes it."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from tritorch import _C
from tritorch.compat.torch_private._custom_op.autograd import backward_of, setup_of
from tritorch.compat.torch_private._library import operators
from tritorch.compat.torch_private._library.fake_impl import get_ctx, without_ctx
from tritorch.compat.torch_private._library.infer_schema import infer_schema
from tritorch.compat.torch_private._library.utils import is_functional_schema
from tritorch.core.tensor import Tensor
from tritorch.library import Library
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.tags import Tag

__all__ = ["CustomOp", "custom_op", "get_ctx", "infer_schema"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"prim", "prims", "aten", "at", "torch", "pytorch"}
_RESULTS = ("int", "SymInt", "bool", "float", "Tensor", "Tensor[]")
_RESULT_NAMES = ["int", "SymInt", "bool", "float", "Tensor", "List[Tensor]"]

global_registry: dict[str, CustomOp] = {}


class FuncAndLocation(NamedTuple):
    """What was registered, and the line that did it."""

    func: Callable[..., Any]
    location: str


def warn_deprecated() -> None:
    """Says what to use instead."""
    warnings.warn(
        "torch._custom_op is deprecated and will be removed in PyTorch 2.6, please "
        "use the equivalent torch.library API instead.",
        DeprecationWarning,
        stacklevel=2,
    )


def custom_op(
    qualname: str, manual_schema: str | None = None
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Declares an operator by a function's annotations, or by a schema."""
    warn_deprecated()

    def declare(func: Callable[..., Any]) -> CustomOp:
        space, name = named_as(qualname, func)
        schema = infer_schema(func, mutates_args=()) if manual_schema is None else manual_schema
        if manual_schema is not None:
            text = parse_schema(f"{space}::{name}{schema}")
            validate_schema(text)
            validate_function_matches_schema(text, func)
        made = _declared(space, name, schema)
        made.__name__, made.__module__, made.__doc__ = name, func.__module__, func.__doc__
        return made

    return declare


def named_as(qualname: str, func: Any) -> tuple[str, str]:
    """The namespace and the name that an operator and its function share."""
    if not inspect.isfunction(func):
        raise ValueError(
            f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(func)}"
        )
    space, name = parse_qualname(qualname)
    validate_namespace(space)
    if func.__name__ != name:
        raise ValueError(
            f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' "
            f"but got '{func.__name__}'. Please either change the name of `func` or the qualname "
            "that is passed to `custom_op`"
        )
    return space, name


def _declared(space: str, name: str, schema: str, tags: Iterable[Tag] = ()) -> CustomOp:
    try:
        parsed = parse_schema(f"{space}::{name}{schema}")
    except RuntimeError as error:
        raise AssertionError(f"Invalid function schema: {name}{schema}") from error
    validate_schema(parsed)
    library = Library(space, "FRAGMENT")
    library.define(f"{name}{schema}", tags=tuple(tags))
    operator = get_op(f"{space}::{name}")
    made = CustomOp(library, space, operator._schema, name, operator, _private_access=True)
    made._register_autograd_kernel_indirection()
    made._definition.refuse = functools.partial(report_error_callback, repr(made))
    return made


def _custom_op_with_schema(
    qualname: str, schema: str, needs_fixed_stride_order: bool = True
) -> OpOverload:
    space, name = parse_qualname(qualname)
    tags = [Tag.needs_fixed_stride_order] if needs_fixed_stride_order else []
    return _declared(space, name, schema, tags)._definition.operator


class CustomOp:
    """An operator that `custom_op` declared."""

    __name__: str

    def __init__(
        self, lib: Library, cpp_ns: str, schema: FunctionSchema, operator_name: str,
        ophandle: OpOverload, *, _private_access: bool = False,
    ) -> None:  # fmt: skip
        warn_deprecated()
        if not _private_access:
            raise RuntimeError(
                "The CustomOp constructor is private and we do not guarantee BC for it. Please use "
                "custom_op(...) to create a CustomOp object"
            )
        self._cpp_ns, self._opname, self._lib = cpp_ns, operator_name, lib
        self._qualname = f"{cpp_ns}::{operator_name}"
        self._schema, self._ophandle = schema, ophandle
        self._definition: operators.Definition = ophandle._op  # type: ignore[assignment]
        self._impls: dict[str, FuncAndLocation] = {}
        self._registered_autograd_kernel_indirection = False
        self._output_differentiability: list[bool] | None = None
        global_registry[self._qualname] = self

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ophandle(*args, **kwargs)

    def _destroy(self) -> None:
        self._lib._destroy()
        del global_registry[self._qualname]

    # ---- what was registered ---------------------------------------------------------------------

    def _has_impl(self, kind: str) -> bool:
        return kind in self._impls

    def _get_impl(self, kind: str) -> FuncAndLocation:
        return self._impls[kind]

    def _register_impl(self, kind: str, func: Callable[..., Any], stacklevel: int = 2) -> None:
        if kind in self._impls:
            raise RuntimeError(
                f"Attempting to register a {kind} impl for operator {self._qualname} that already "
                f"has a {kind} impl registered from Python at {self._impls[kind].location}. This "
                "is not supported."
            )
        frame = inspect.getframeinfo(sys._getframe(stacklevel))
        self._impls[kind] = FuncAndLocation(func, f"{frame.filename}:{frame.lineno}")

    # ---- kernels ---------------------------------------------------------------------------------

    def impl(
        self, device_types: str | Iterable[str], _stacklevel: int = 2
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers what computes it on kinds of devices."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            validate_device_type(kind)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in dict.fromkeys(kinds):
                key = SUPPORTED_DEVICE_TYPE_TO_KEY[kind]
                if not self._has_impl(kind) and self._definition.computes(key):
                    raise RuntimeError(
                        f"impl(..., device_types={kind}): the operator {self._qualname} already "
                        "has an implementation for this device type via a pre-existing "
                        "torch.library or TORCH_LIBRARY registration."
                    )
                self._register_impl(kind, function, stacklevel=_stacklevel)
                self._lib.impl(self._opname, function, key)
            return function

        return register

    def impl_factory(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers what computes it without tensors."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._register_impl("factory", function)
            self._lib.impl(self._opname, function, "BackendSelect")
            return function

        return register

    def impl_abstract(
        self, _stacklevel: int = 2
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers what its results look like."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._require_no_meta()
            self._register_impl("abstract", function, stacklevel=_stacklevel)
            kernel = without_ctx(function, self._qualname, self._get_impl("abstract").location)
            self._lib.impl(self._opname, kernel, "Meta")
            return function

        return register

    def _require_no_meta(self) -> None:
        keys = self._definition.keys()
        if self._has_impl("abstract"):
            return
        if "CompositeExplicitAutograd" in keys and "Meta" not in keys:
            return
        if operators.COMPOSED in keys:
            raise RuntimeError(
                f"impl_abstract(...): the operator {self._qualname} already has an implementation "
                "for this device type via a pre-existing registration to "
                "DispatchKey::CompositeImplicitAutograd.CompositeImplicitAutograd operators do not "
                "need an abstract impl; instead, the operator will decompose into its constituents "
                "and those can have abstract impls defined on them."
            )
        if "Meta" in keys:
            raise RuntimeError(
                f"impl_abstract(...): the operator {self._qualname} already has a "
                "DispatchKey::Meta implementation via a pre-existing torch.library or "
                "TORCH_LIBRARY registration. Please either remove that registration or don't call "
                "impl_abstract."
            )

    # ---- gradients -------------------------------------------------------------------------------

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[[Callable[..., Any]], None]:
        """Registers what a gradient needs: `save(inputs, output)`."""

        def register(function: Callable[..., Any]) -> None:
            self._register_gradient("save_for_backward", function, _stacklevel + 1)

        return register

    def impl_backward(
        self, output_differentiability: Any = None, _stacklevel: int = 2
    ) -> Callable[[Callable[..., Any]], None]:
        """Registers its gradients by name: `backward(ctx, saved, *grads)`."""
        given = output_differentiability
        if given is not None and not (
            isinstance(given, list)
            and all(isinstance(each, bool) for each in given)
            and len(given) == len(self._schema.returns)
        ):
            raise RuntimeError(
                "impl_backward(output_differentiability): expected output_differentiability to be "
                "a list of bools with length equal to the number of outputs of this CustomOp got: "
                f"{given}"
            )

        def register(function: Callable[..., Any]) -> None:
            self._register_gradient("backward", function, _stacklevel + 1, given)

        return register

    def _register_gradient(
        self, kind: str, function: Callable[..., Any], stacklevel: int,
        differentiable: list[bool] | None = None,
    ) -> None:  # fmt: skip
        self._require_differentiable()
        if not self._registered_autograd_kernel_indirection:
            self._require_no_autograd()
            self._register_autograd_kernel_indirection()
        self._register_impl(kind, function, stacklevel=stacklevel)
        if kind == "backward":
            self._output_differentiability = differentiable
        if self._has_impl("backward") and self._has_impl("save_for_backward"):
            save, backward = self._get_impl("save_for_backward"), self._get_impl("backward")
            setup = setup_of(self, save.func, self._output_differentiability)
            self._definition.setup_context = setup
            self._definition.backward = backward_of(self, backward.func)

    def _register_autograd_kernel_indirection(self) -> None:
        self._lib.impl(self._opname, self._autograd_kernel, "Autograd")
        self._registered_autograd_kernel_indirection = True

    def _autograd_kernel(self, *args: Any, **kwargs: Any) -> Any:
        has = [kind for kind in ("save_for_backward", "backward") if self._has_impl(kind)]
        if len(has) == 1:
            (found,) = has
            missing = "save_for_backward" if found == "backward" else "backward"
            raise RuntimeError(
                f"We found a '{found}' registration for {self} at "
                f"{self._get_impl(found).location} but were unable to find a '{missing}' "
                "registration. To use the CustomOp API to register a backward formula, please "
                "provide us both a backward function and a 'save for backward' function via "
                "`impl_backward` and `impl_save_for_backward` respectively."
            )
        tensors = [x for x in operators.leaves((*args, *kwargs.values())) if isinstance(x, Tensor)]
        if not has and _C.is_grad_enabled() and _C.any_requires_grad(*tensors):
            raise RuntimeError("Autograd has not been implemented for operator")
        return self._definition(*args, **kwargs)  # below this kernel

    def _require_differentiable(self) -> None:
        def refuse(what: str) -> NoReturn:
            raise RuntimeError(
                "Cannot use torch._custom_ops APIs to register backward formula for "
                f"{what}. Got operator {self._qualname} with schema: {self._schema}"
            )

        schema = self._schema
        if schema.is_mutable:
            refuse("non-functional operator")
        if not schema.returns:
            refuse("operator with no returns")
        if any(r.alias_info is not None for r in schema.returns):
            refuse("operator that returns views")
        for each in schema.returns:
            kind = str(each.real_type).replace("List[Tensor]", "Tensor[]")
            if kind not in _RESULTS:
                refuse(f"operator with return not in {_RESULT_NAMES} (got {kind})")

    def _require_no_autograd(self) -> None:
        keys = self._definition.keys()
        if operators.COMPOSED in keys:
            raise RuntimeError(
                f"impl_backward/impl_save_for_backward: the operator {self._qualname} already has "
                "an implementation for this device type via a pre-existing registration to "
                "DispatchKey::CompositeImplicitAutograd.CompositeImplicitAutograd operators do not "
                "need an autograd formula; instead, the operator will decompose into its "
                "constituents and those can have autograd formulas defined on them."
            )
        for key in operators.AUTOGRAD:
            if key in keys:
                raise RuntimeError(
                    f"impl_backward/impl_save_for_backward: the operator {self._qualname} already "
                    f"has an Autograd kernel registered to DispatchKey::{key} vi a pre-existing "
                    "torch.library or TORCH_LIBRARY registration. Please either remove those "
                    "registrations or don't use the torch._custom_ops APIs"
                )


# ---- names and schemas ---------------------------------------------------------------------------


def parse_qualname(qualname: str) -> tuple[str, str]:
    """The two parts of "namespace::name"."""
    space, found, name = qualname.partition("::")
    if not found:
        raise ValueError(
            f"Expected there to be a namespace in {qualname}, i.e. The operator name should look "
            "something like ns::foo"
        )
    if "." in name:
        raise ValueError(
            "The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in "
            f"them. Please name your operator something like ns::foo. Got: {qualname}"
        )
    return space, name


def validate_namespace(ns: str) -> None:
    """Refuses namespaces that are PyTorch's own."""
    if "." in ns:
        raise ValueError(
            f'custom_op(..., ns="{ns}"): expected ns to not contain any . (and be a valid variable '
            "name)"
        )
    if ns in RESERVED_NS:
        raise ValueError(
            f"custom_op(..., ns='{ns}'): '{ns}' is a reserved namespace, please choose something "
            "else. "
        )


def validate_schema(schema: FunctionSchema) -> None:
    """Refuses what writes or shares its arguments' memory."""
    if not is_functional_schema(schema):
        raise ValueError(
            "custom_op only supports functional operators (ops that do not mutate any inputs, do "
            "not return views of the inputs, and has at least one return). Got the following "
            f"non-functional schema: {schema}"
        )
    if any(a.name == "self" for a in schema.arguments):
        raise ValueError(
            "custom_op does not support arguments named 'self'. Please rename your argument. Got: "
            f"{schema}"
        )


def validate_device_type(device_type: str) -> None:
    """Refuses kinds of devices that have no kernels."""
    if device_type not in SUPPORTED_DEVICE_TYPE_TO_KEY:
        raise ValueError(
            f"CustomOp.impl(device_types=[{device_type}, ...]): we only support device_type in "
            f"{SUPPORTED_DEVICE_TYPE_TO_KEY.keys()}."
        )


def validate_function_matches_schema(schema: FunctionSchema, func: Callable[..., Any]) -> None:
    """Refuses a function whose parameters are not a schema's."""
    signature = inspect.signature(func)
    parameters = list(signature.parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    empty = inspect.Parameter.empty
    if any(p.kind not in kinds for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): positional-only args, varargs, and kwargs are "
            f"not supported. Please rewrite `func` to not have them. Got `func` with signature: "
            f"{signature}"
        )
    if signature.return_annotation is not empty or any(
        p.annotation is not empty for p in parameters
    ):
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect "
            "`func` to have no type annotations to avoid ambiguity. Got `func` with signature: "
            f"{signature}"
        )
    expected = [(a.name, a.kwarg_only) for a in schema.arguments]
    if [(p.name, p.kind is inspect.Parameter.KEYWORD_ONLY) for p in parameters] != expected:
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect "
            "`func`'s signature to match `manual_schema` (aside from type annotations). func's "
            f"signature: {signature}, manual_schema: {schema}"
        )
    if any(p.default is not empty for p in parameters) or any(
        a.has_default_value() for a in schema.arguments
    ):
        raise ValueError(
            "custom_op(..., manual_schema)(func): neither func nor manual_schema should have "
            f"default arguments. Got func's signature: {signature}, manual_schema: {schema}"
        )


def report_error_callback(custom_op: Any, key: str) -> NoReturn:
    """Says what to register where nothing computes an operator."""
    if key == "Undefined":
        what = (
            "There were no Tensor inputs to this operator (e.g. you passed an empty list of "
            "Tensors). If your operator is a factory function (that is, it takes no Tensors and "
            "constructs a new one), then please use CustomOp.impl_factory to register an "
            "implementation for it"
        )
    elif key == "Meta":
        what = (
            "when running with device='Meta' tensors: there is no abstract impl registered for "
            "this CustomOp. Please register one via CustomOp.impl_abstract to get this CustomOp to "
            "work with Meta tensors"
        )
    else:
        where = key.lower()
        what = (
            f"when running with device='{where}' tensors: there is no {where} impl registered for "
            f"this CustomOp. Please register one via CustomOp.impl(device_type='{where}')"
        )
    raise NotImplementedError(f"{custom_op}: {what}")


# ---- looking up ----------------------------------------------------------------------------------


def get_op(qualname: str) -> OpOverload:
    """The operator of a name."""
    space, name = parse_qualname(qualname)
    try:
        return getattr(namespace(space), name).default
    except AttributeError:
        raise ValueError(
            f"Could not find the operator {qualname}. Please make sure you have already registered "
            "the operator and (if registered from C++) loaded it via torch.ops.load_library."
        ) from None


def _find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    if qualname in global_registry:
        return global_registry[qualname]
    if not also_check_torch_library:
        raise RuntimeError(
            f'Could not find custom op "{qualname}". Did you register it via the '
            "torch._custom_ops API?"
        )
    return custom_op_from_existing(get_op(qualname))


def custom_op_from_existing(op: OpOverload) -> CustomOp:
    """A CustomOp for an operator that was defined by a library."""
    space, name = parse_qualname(op.name())
    library = Library(space, "FRAGMENT")
    return CustomOp(library, space, op._schema, name, op, _private_access=True)


def get_abstract_impl(qualname: str) -> Callable[..., Any] | None:
    """What was registered for the results of an operator."""
    found = global_registry.get(qualname)
    return found._get_impl("abstract").func if found and found._has_impl("abstract") else None
