"""opcheck: whether what was registered for an operator agrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.compat.torch_private._library import operators
from tritorch.compat.torch_private._library.operators import AUTOGRAD, COMPOSED
from tritorch.compat.torch_private._library.utils import is_builtin
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.comparison import allclose
from tritorch.ops.record.overloads import DEFINED, OpOverload, OpOverloadPacket

ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """An operator's registrations do not agree."""


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    test_utils: str | Sequence[str] = ALL, raise_exception: bool = True,
    atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Runs an operator in several ways and compares: "SUCCESS" or the error, by test.

    test_schema: only what the schema says is written or shared.  test_autograd_registration:
    gradients are registered so that all transforms see them.  test_faketensor: the fake function
    gives what a run gives.  test_aot_dispatch_dynamic: gradients of two runs are the same."""
    if (rtol is None) != (atol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    overload = _overload_of(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if test_utils == "ALL":
        names = tuple(_TESTS)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of "
            f"{tuple(_TESTS)} but it was not"
        )
    found: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](overload, args, kwargs or {}, atol, rtol)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            found[name] = error
    return found


def _overload_of(op: Any) -> OpOverload:
    op = getattr(op, "_opoverload", op)
    if isinstance(op, OpOverloadPacket):
        schemas = op._schemas
        if len(schemas) != 1:
            raise RuntimeError(
                "opcheck can only test operators without overloads. Got the following overloads "
                f"for {op._qualified_op_name}: {[*schemas]}"
            )
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"torch.ops.aten.sin.default, got {type(op)}"
        )
    return op


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        return [x for each in value for x in _leaves(each)]
    return [value] if isinstance(value, Tensor) else []


def _copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value


def _test_schema(op: OpOverload, args: Any, kwargs: Any, atol: Any, rtol: Any) -> None:
    from tritorch.compat.torch_private._subclasses.schema_check_mode import SchemaCheckMode

    args, kwargs = _copied(args), _copied(kwargs)
    with SchemaCheckMode():
        op(*args, **kwargs)


def _test_autograd_registration(op: OpOverload, args: Any, kwargs: Any, *rest: Any) -> None:
    args, kwargs = _copied(args), _copied(kwargs)
    given = _leaves([*args, *kwargs.values()])
    if not any(x.requires_grad for x in given):
        return
    definition = DEFINED.get((op._schema.name, op._schema.overload_name))
    if definition is None or not {*AUTOGRAD, COMPOSED}.isdisjoint(definition.keys()):
        return
    inputs = {id(x) for x in given}
    with Scope((operators.fallback, "mode", "nothing")):  # gradients are those of its kernel
        outputs = _leaves([op(*args, **kwargs)])
    if any(x.requires_grad and id(x) not in inputs for x in outputs):
        raise AssertionError(
            f"{op.name()}: at least one output of this operator has requires_grad=True but the "
            "operator does not have an autograd kernel defined at an autograd key (e.g. "
            "DispatchKey::Autograd). This could mean that you have incorrectly registered an "
            "autograd kernel to a non-Autograd DispatchKey, which may lead to silently incorrect "
            "results. If your operator consists of regular PyTorch operations, consider not using "
            "an operator at all or registering your operator as CompositeImplicitAutograd. If you "
            "have an autograd.Function registered to a backend (CPU/CUDA/XPU) key, the correct "
            "location for it is the Autograd key."
        )


def _test_faketensor(op: OpOverload, args: Any, kwargs: Any, *rest: Any) -> None:
    from tritorch.compat.torch_private._subclasses.fake_utils import CrossRefFakeMode

    args, kwargs = _copied(args), _copied(kwargs)
    with CrossRefFakeMode(ignore_op_fn=is_builtin):
        op(*args, **kwargs)


def _test_gradients(op: OpOverload, args: Any, kwargs: Any, atol: Any, rtol: Any) -> None:
    from tritorch.autograd import grad

    def run() -> list[Tensor]:
        given, named = _copied(args), _copied(kwargs)
        outs = _leaves([op(*given, **named)])
        wanted = [x for x in _leaves([*given, *named.values()]) if x.requires_grad]
        ends = [x for x in outs if x.requires_grad]
        if not wanted or not ends:
            return outs
        sum_of = sum((x.sum() for x in ends[1:]), ends[0].sum())
        return outs + [g for g in grad(sum_of, wanted, allow_unused=True) if g is not None]

    for a, b in zip(run(), run()):
        close = allclose(
            a.detach(), b.detach(), rtol=rtol or 1e-5, atol=atol or 1e-8, equal_nan=True
        )
        if not close:
            raise AssertionError("two runs on equal inputs differ")


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_gradients,
    "test_aot_dispatch_static": _test_gradients,
}
