"""What a fake function may ask for: sizes that depend on data."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from tritorch.arrays.meta import DynamicOutputShapeException
from tritorch.arrays.symbolic import INF, ShapeEnv, SymInt
from tritorch.core.scopes import Scope, scoped
from tritorch.core.thread_state import carried


class FakeImplCtx:
    """The context of a fake function that runs for a fake tensor mode."""

    def __init__(self, _fake_mode: Any, _op: Any) -> None:
        self._fake_mode, self._op = _fake_mode, _op
        self._shape_env: ShapeEnv | None = _fake_mode.shape_env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that depends on data: a dynamic integer, between two numbers."""
        env = self._shape_env
        if env is None or not env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(self._op)
        if isinstance(min, SymInt) or isinstance(max, SymInt):
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be "
                "statically known ints but got SymInt. This is not supported."
            )
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal "
                "to 0: this API can only create non-negative sizes."
            )
        return env.unbacked(min, INF if max is None else max)

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        """`new_dynamic_size` (former name)."""
        warnings.warn(
            "`create_unbacked_symint` is deprecated, please use `new_dynamic_size` instead",
            FutureWarning,
            stacklevel=2,
        )
        return self.new_dynamic_size(min=min, max=max)


def _nothing() -> None:
    return None


class _Now(threading.local):
    getter: Callable[[], Any] = staticmethod(_nothing)


_now = carried(_Now())


@scoped
def set_ctx_getter(ctx_getter: Callable[[], Any]) -> Scope:
    """Inside, `get_ctx()` gives what a function gives."""
    return Scope((_now, "getter", ctx_getter))


def get_ctx() -> FakeImplCtx:
    """The context of the fake function that runs."""
    return _now.getter()


def without_ctx(function: Callable[..., Any], qualname: str, place: str) -> Callable[..., Any]:
    """A fake function, registered at a place, to which `get_ctx()` refuses a context: tensors on
    the meta device have no sizes that depend on data."""

    def refuse() -> NoReturn:
        raise RuntimeError(
            f"Attempted to call get_ctx() for the meta implementation for {qualname}.You have "
            "presumably called get_ctx() because the operator has a data-dependent output shape; "
            "if so, there is no such meta implementation and this error is the correct behavior. "
            "Otherwise, please remove the call to get_ctx() in the implementation registered with "
            f"impl_abstract at {place}"
        )

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with set_ctx_getter(refuse):
            return function(*args, **kwargs)

    return run


def on_meta(function: Callable[..., Any], qualname: str, place: str) -> Callable[..., Any]:
    """The same for one that `register_fake` was given."""

    def refuse() -> NoReturn:
        raise RuntimeError(
            f"{qualname} ({place}): You're trying to run this operator with meta Tensors (as "
            "opposed to FakeTensors), but this operator may return an output Tensor with "
            "data-dependent shape. Meta Tensors don't support operators with outputs that have "
            "data-dependent shapes but FakeTensors do. If your operator does not return an output "
            "with data-dependent shape, make sure the FakeTensor and/or meta kernel does not call "
            "torch.library.get_ctx(). Otherwise, please use FakeTensors."
        )

    def run(*args: Any, **kwargs: Any) -> Any:
        with set_ctx_getter(refuse):
            return function(*args, **kwargs)

    return run
