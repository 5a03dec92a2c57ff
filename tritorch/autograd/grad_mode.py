"""no_grad, enable_grad, set_grad_enabled, inference_mode: contexts and decorators."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.core.defaults import require_bool
from tritorch.core.scopes import Scope, ScopeWhenMade
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried


class _Mode(Scope):
    """A context that also decorates functions, generators and the methods of classes."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: Any) -> Any:
        return _decorated(self, function)


class _ModeWhenMade(ScopeWhenMade):
    """One that sets when it is made; as a decorator it changes nothing there."""

    mode: bool

    def clone(self) -> Any:
        return type(self)(self.mode)

    def decorate(self, function: Any) -> Any:
        return _decorated(self, function)


def _decorated(mode: Any, function: Any) -> Any:
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You "
            "should only decorate functions or methods. To preserve the current behavior of "
            "class decoration, you can directly decorate the `__init__` method and nothing "
            "else.",
            FutureWarning,
            stacklevel=3,
        )
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(mode, function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with mode.clone():
            return function(*args, **kwargs)

    return wrapper


def _wrap_generator(mode: Any, function: Callable[..., Any]) -> Any:
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


_GRAD = {on: ((_C.set_grad_enabled, on),) for on in (False, True)}
_OF_FUNCTION = inspect.signature(lambda orig_func=None: None)
_INFERENCE = ((_C.set_inference_mode, True), (_C.set_grad_enabled, False))


class no_grad(_Mode):
    """Within, nothing is recorded."""

    changes = _GRAD[False]
    decorates = _decorated
    __signature__ = _OF_FUNCTION


class enable_grad(_Mode):
    """Within, calls are recorded, also inside no_grad."""

    changes = _GRAD[True]
    decorates = _decorated
    __signature__ = _OF_FUNCTION


class set_grad_enabled(_ModeWhenMade):
    """Turns recording on or off, as a call or as a context."""

    choices = _GRAD[False], _GRAD[True]

    def changes(self, mode: bool) -> Any:  # of what is no bool, or has its name
        if type(mode) is not bool:
            require_bool("set_grad_enabled", "enabled", mode, 1)
        self.mode = mode
        return _GRAD[mode]

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """no_grad, and tensors made within can never be recorded."""

    mode = True
    decorates = _decorated

    def __init__(self, mode: bool = True) -> None:
        if mode is True:
            vars(self)["changes"] = _INFERENCE
        else:
            self.mode = mode

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    def changes(self) -> Any:  # of another mode than True
        return (
            (_C.set_inference_mode, self.mode),
            (_C.set_grad_enabled, not self.mode and _C.is_grad_enabled()),
        )


class set_multithreading_enabled(_ModeWhenMade):
    """Accepted for compatibility: a backward pass runs in the thread that asked for it."""

    def changes(self, mode: bool) -> Any:
        self.mode = bool(mode)
        return ((_settings, "multithreading", self.mode),)


class _Settings(threading.local):
    multithreading = True
    view_replay = False


_settings = carried(_Settings())


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was last given."""
    return _settings.multithreading


def is_view_replay_enabled() -> bool:
    """Whether views are made anew by their own operators alone."""
    return _settings.view_replay


class _force_original_view_tracking(_ModeWhenMade):
    """Accepted for compatibility: views are always made anew by their own operators."""

    def changes(self, mode: bool) -> Any:
        self.mode = bool(mode)
        return ((_settings, "view_replay", self.mode),)


class _unsafe_preserve_version_counter(_Mode):
    """Within, writes are not counted: gradients do not notice them."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        assert isinstance(self.tensors, tuple), "Expected tensors to be a tuple"
        self.prev_versions = tuple(tensor._version for tensor in self.tensors)

    def changes(self) -> Any:
        shared = [tensor._shared for tensor in self.tensors]
        return [(each, "version", v) for each, v in zip(shared, self.prev_versions)]


class _Layout(threading.local):
    enforced = True


_layout = carried(_Layout())


def layout_enforced() -> bool:
    """Whether gradients of leaves must be laid out as they are."""
    return _layout.enforced


class enforce_grad_layout_policy(_ModeWhenMade):
    """Whether a first gradient is copied if it lies in memory otherwise than its leaf, on this
    thread, as a call or as a context."""

    def changes(self, enable: bool = True) -> Any:
        self.mode = enable
        return ((_layout, "enforced", enable),)


def is_grad_enabled() -> bool:
    """Whether calls are recorded in this thread."""
    return _C.is_grad_enabled()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return _C.is_inference_mode()
