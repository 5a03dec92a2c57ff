"""opcheck: whether what was registered for an operator agrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core.meta import MetaArray, meta_of
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket, bind

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
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= {*ALL, "test_aot_dispatch_static"}:
        raise ValueError(f"opcheck: expected test_utils to be a subset of {ALL} but got {names}")
    overload = _overload_of(op)
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
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        return op.default
    overload = getattr(op, "_opoverload", None)
    if overload is None:
        raise ValueError(
            f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, got {type(op)}"
        )
    return overload


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


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.detach().clone() if isinstance(value, Tensor) else value


def _test_schema(op: OpOverload, args: Any, kwargs: Any, atol: Any, rtol: Any) -> None:
    args, kwargs = _plain(args), _plain(kwargs)
    values = bind(op._schema, args, kwargs)
    before = {name: [x.clone() for x in _leaves([value])] for name, value in values.items()}
    result = op(*args, **kwargs)
    for argument in op._schema.arguments:
        for x, old in zip(_leaves([values[argument.name]]), before[argument.name]):
            same = x.shape == old.shape and PUBLIC["allclose"](x, old, equal_nan=True)
            if not same and not argument.is_write:
                raise RuntimeError(
                    f"Argument {argument.name} is not defined as mutable but was mutated"
                )
    if any(r.alias_info is not None for r in op._schema.returns):
        return
    storages = {id(x._shared) for value in values.values() for x in _leaves([value])}
    for x in _leaves([result]):
        if id(x._shared) in storages:
            raise RuntimeError("Argument is not defined to alias output but was aliasing")


def _test_autograd_registration(op: OpOverload, args: Any, kwargs: Any, *rest: Any) -> None:
    args, kwargs = _copied(args), _copied(kwargs)
    if not any(x.requires_grad for x in _leaves([*args, *kwargs.values()])):
        return
    for x in _leaves([op(*args, **kwargs)]):
        if x.grad_fn is None and x.is_floating_point():
            raise RuntimeError(
                f"{op}: an input wants a gradient and the output has none: register the formula "
                "with torch.library.register_autograd"
            )


def _described(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_described, value))
    if isinstance(value, dict):
        return {name: _described(each) for name, each in value.items()}
    if not isinstance(value, Tensor):
        return value
    array = meta_of(value._array)
    where = PUBLIC["empty"](0, device="meta").device
    return _C.wrap(MetaArray(array.shape, array.dtype, array.strides, where))


def _test_faketensor(op: OpOverload, args: Any, kwargs: Any, *rest: Any) -> None:
    real = _leaves([op(*_plain(args), **_plain(kwargs))])
    fake = _leaves([op(*_described(args), **_described(kwargs))])
    if len(real) != len(fake):
        raise AssertionError(f"{len(real)} tensors in a run, {len(fake)} of the fake function")
    for x, y in zip(real, fake):
        for what in ("dtype", "shape"):
            a, b = getattr(x, what), getattr(y, what)
            known = all(isinstance(n, int) for n in b) if what == "shape" else True
            if known and a != b:
                raise AssertionError(f"{what} of the fake function is {b}, of a run {a}")
        if all(isinstance(n, int) for n in y.shape) and x.stride() != y.stride():
            raise AssertionError(
                f"strides of the fake function are {y.stride()}, of a run {x.stride()}"
            )


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
        close = PUBLIC["allclose"](
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
