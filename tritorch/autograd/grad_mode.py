"""no_grad, enable_grad, set_grad_enabled, inference_mode: contexts and decorators."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.core.defaults import require_bool
from tritorch.core.thread_state import carried


class _Mode:
    """A context that also decorates functions, generators and the methods of classes."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: Any) -> Any:
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: Any) -> None:
        raise NotImplementedError


def _wrap_generator(mode: _Mode, function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with mode.clone():
                item = next(generator)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    with mode.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with mode.clone():
                        item = generator.throw(error)
                else:
                    with mode.clone():
                        item = generator.send(sent)
        except StopIteration as stop:
            return stop.value

    return wrapper


class no_grad(_Mode):
    """Within, nothing is recorded."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else _Mode.__call__(self, orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = _C.set_grad_enabled(False)

    def __exit__(self, *exception: Any) -> None:
        _C.set_grad_enabled(self.prev)


class enable_grad(_Mode):
    """Within, calls are recorded, also inside no_grad."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else _Mode.__call__(self, orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = _C.set_grad_enabled(True)

    def __exit__(self, *exception: Any) -> None:
        _C.set_grad_enabled(self.prev)


class set_grad_enabled(_Mode):
    """Turns recording on or off, as a call or as a context."""

    def __init__(self, mode: bool) -> None:
        require_bool("set_grad_enabled", "enabled", mode, 1)
        self.mode = mode
        self.prev = _C.set_grad_enabled(mode)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, function: Any) -> Any:
        _C.set_grad_enabled(self.prev)  # as a decorator it changes nothing here
        return super().__call__(function)

    def __enter__(self) -> None:
        _C.set_grad_enabled(self.mode)

    def __exit__(self, *exception: Any) -> None:
        _C.set_grad_enabled(self.prev)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """no_grad, and tensors made within can never be recorded."""

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode) and not isinstance(mode, bool):
            self.mode = True
            return _Mode.__call__(self, mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self.prev = (False, False)

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.prev = (
            _C.set_inference_mode(self.mode),
            _C.set_grad_enabled(not self.mode and _C.is_grad_enabled()),
        )

    def __exit__(self, *exception: Any) -> None:
        inference, grad = self.prev
        _C.set_inference_mode(inference)
        _C.set_grad_enabled(grad)


class set_multithreading_enabled(_Mode):
    """Accepted for compatibility: a backward pass runs in the thread that asked for it."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> set_multithreading_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass


_layout = carried(threading.local())


def layout_enforced() -> bool:
    """Whether gradients of leaves must be laid out as they are."""
    return getattr(_layout, "enforced", True)


class enforce_grad_layout_policy(_Mode):
    """Whether a first gradient is copied if it lies in memory otherwise than its leaf, on this
    thread, as a call or as a context."""

    def __init__(self, enable: bool = True) -> None:
        self.prev = layout_enforced()
        self.mode = _layout.enforced = enable

    def clone(self) -> enforce_grad_layout_policy:
        return type(self)(self.mode)

    def __call__(self, function: Any) -> Any:
        _layout.enforced = self.prev  # as a decorator it changes nothing here
        return super().__call__(function)

    def __enter__(self) -> None:
        _layout.enforced = self.mode

    def __exit__(self, *exception: Any) -> None:
        _layout.enforced = self.prev


def is_grad_enabled() -> bool:
    """Whether calls are recorded in this thread."""
    return _C.is_grad_enabled()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return _C.is_inference_mode()
