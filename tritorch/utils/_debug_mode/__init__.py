"""A mode that writes down the operators that are called: `DebugMode`.

with DebugMode(record_ids=True) as mode:
    model(x)
print(mode.debug_string())
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.nn.modules import module as modules
from tritorch.nn.modules.module import Module
from tritorch.ops.index.selecting import hash_tensor
from tritorch.overrides import TorchFunctionMode, resolve_name
from tritorch.utils import _pytree as pytree
from tritorch.utils._dtype_abbrs import dtype_abbrs
from tritorch.utils._python_dispatch import TorchDispatchMode
from tritorch.utils.weak import WeakIdKeyDictionary

__all__ = ["DebugMode", "get_active_debug_mode", "hash_tensor_fn", "norm_hash_fn"]

_PACKAGE = str(Path(__file__).resolve().parents[2])
_active: list[DebugMode] = []
# (operator, types, args, kwargs, result) -> what is noted at the call; by what they are for
_hooks: dict[str, list[Callable[..., dict[str, Any] | None]]] = {"log": [], "record": []}


def get_active_debug_mode() -> DebugMode | None:
    """The innermost mode that is entered."""
    return _active[-1] if _active else None


def norm_hash_fn(t: Tensor, use_scalar: bool = False) -> Any:
    """The sum of the absolute values of a tensor in float64, NaN and infinities apart."""
    x = t.detach()
    x = (x.abs() if x.is_complex() else x).double()
    found = x.nan_to_num(0.0, 1.0, -1.0).abs().sum()
    return found.item() if use_scalar else found


def hash_tensor_fn(t: Tensor, use_scalar: bool = False) -> Any:
    """The bits of a tensor, combined by exclusive or."""
    from tritorch.core.published import PUBLIC

    found = hash_tensor(t.detach())
    return found.item() if use_scalar else found


_HASHES = {"norm": norm_hash_fn, "hash_tensor": hash_tensor_fn}


class _DebugCall:
    """A line of the record: a call and how deep it lies in others."""

    def __init__(self, name: Any, call_depth: int, stack: list[str] | None = None) -> None:
        self.op, self.call_depth, self.stack_trace = name, call_depth, stack
        self.args: Any = None
        self.kwargs: Any = None
        self.output: Any = None
        self.args_str = self.kwargs_str = self.output_str = ""
        self.log: dict[str, Any] | None = None
        self.record: dict[str, Any] | None = None

    def name(self) -> str:
        """The called operator's name."""
        return str(self.op)

    def render(self) -> str:
        """The call with its arguments, its result, and what hooks noted."""
        inside = ", ".join(part for part in (self.args_str, self.kwargs_str) if part)
        noted = f"  # {self.log}" if self.log else ""
        return f"{self.name()}({inside}){self.output_str}{noted}"

    __repr__ = render


class _OpCall(_DebugCall):
    """An operator, as a dispatch mode sees it."""

    def name(self) -> str:
        """aten::add.Tensor; the overload "default" is left out."""
        schema = getattr(self.op, "_schema", None)
        if schema is None:
            return resolve_name(self.op) or str(getattr(self.op, "__name__", self.op))
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


class _FunctionCall(_OpCall):
    """A public function, as a function mode sees it."""


class _ModuleCall(_DebugCall):
    """A module, whose operators follow."""

    def render(self) -> str:
        """The module's name."""
        return f"[nn.Mod] {self.op}"

    __repr__ = render


class _AnnotateCall(_DebugCall):
    """A remark of the program's."""

    def render(self) -> str:
        """The remark."""
        return f"[annotate] {self.op}"

    __repr__ = render


class _Functions(TorchFunctionMode):
    """The part of the mode that sees public functions."""

    def __init__(self, mode: DebugMode) -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = self._mode._record(_FunctionCall, func, args, kwargs)
        self._mode.call_depth += 1
        try:
            result = func(*args, **kwargs)
        finally:
            self._mode.call_depth -= 1
        return self._mode._record_output(call, types, args, kwargs, result)


class DebugMode(TorchDispatchMode):
    """Notes the operators that are dispatched within it (`logs`, `debug_string()`).

    record_torchfunction: public functions too.  record_realtensor, record_faketensor: operators of
    such tensors.  record_tensor_attributes: attributes of tensors that are shown.
    record_nn_module: the modules around.  store_original_args: keeps arguments and results
    themselves.  record_stack_trace: where the program stood.  record_output: results.
    record_ids: tensors by numbers.  The other options are for what there is not: profilers' ranges,
    local tensors and graphs that an interpreter runs."""

    def __init__(
        self, *, record_torchfunction: bool = False, record_faketensor: bool = False,
        record_realtensor: bool = True, record_tensor_attributes: Sequence[str] | None = None,
        record_nn_module: bool = False, store_original_args: bool = False,
        record_stack_trace: bool = False, record_output: bool = True, record_ids: bool = False,
        record_profiler_context: bool = True, record_localtensor: bool = True,
        run_compile_with_interpreter: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.record_torchfunction = record_torchfunction
        self.record_faketensor, self.record_realtensor = record_faketensor, record_realtensor
        self.record_tensor_attributes = list(record_tensor_attributes or ())
        self.record_nn_module, self.store_original_args = record_nn_module, store_original_args
        self.record_stack_trace, self.record_output = record_stack_trace, record_output
        self.record_ids = record_ids
        self._within: list[contextlib.ExitStack] = []
        self.reset()

    def reset(self) -> None:
        """Forgets all calls."""
        self.logs: list[_DebugCall] = []
        self.call_depth = 0
        self._ids: Any = WeakIdKeyDictionary()
        self._numbers = itertools.count()

    @property
    def operators(self) -> list[_DebugCall]:
        """The calls in the order in which they were made."""
        return self.logs

    # ---- entering -----------------------------------------------------------------------------

    def __enter__(self) -> DebugMode:
        self.reset()
        stack = contextlib.ExitStack()
        self._within.append(stack)
        if self.record_torchfunction:
            stack.enter_context(_Functions(self))
        super().__enter__()
        if self.record_nn_module:
            before = modules.register_module_forward_pre_hook(self._enter_module)
            after = modules.register_module_forward_hook(self._leave_module, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        _active.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _active.remove(self)
        super().__exit__(*exception)
        self._within.pop().close()

    def _enter_module(self, module: Module, args: Any) -> None:
        call = _ModuleCall(type(module).__name__, self.call_depth + 1, self._stack())
        self.logs.append(call)
        self.call_depth += 1

    def _leave_module(self, module: Module, args: Any, result: Any) -> None:
        self.call_depth -= 1

    # ---- calls --------------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._wants((args, kwargs)):
            return func(*args, **kwargs)
        call = self._record(_OpCall, func, args, kwargs, 1)
        result = func(*args, **kwargs)
        return self._record_output(call, types, args, kwargs, result)

    def _wants(self, arguments: Any) -> bool:
        from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensor

        fake = any(isinstance(x, FakeTensor) for x in pytree.tree_leaves(arguments))
        return self.record_faketensor if fake else self.record_realtensor

    def _record(self, kind: Any, func: Any, args: Any, kwargs: Any, deeper: int = 0) -> _DebugCall:
        call: _DebugCall = kind(func, self.call_depth + deeper, self._stack())
        call.args_str = ", ".join(map(self._shown, args))
        call.kwargs_str = ", ".join(f"{name}={self._shown(x)}" for name, x in kwargs.items())
        if self.store_original_args:
            call.args, call.kwargs = args, kwargs
        self.logs.append(call)
        return call

    def _record_output(
        self, call: _DebugCall, types: Any, args: Any, kwargs: Any, result: Any
    ) -> Any:
        if self.record_output and result is not None:
            call.output_str = f"  ->  {self._shown(result)}"
            if self.store_original_args:
                call.output = result
        if isinstance(call, _OpCall) and not isinstance(call, _FunctionCall):
            for name, hooks in _hooks.items():
                for hook in hooks:
                    noted = hook(call.op, types, args, kwargs, result)
                    if noted:
                        setattr(call, name, {**(getattr(call, name) or {}), **noted})
        return result

    def _stack(self) -> list[str] | None:
        """The program's lines that lead here, the innermost last."""
        if not self.record_stack_trace:
            return None
        frames = traceback.extract_stack()
        return [
            f"{f.filename}:{f.lineno} in {f.name}, code: {f.line}"
            for f in frames
            if not f.filename.startswith(_PACKAGE)
        ]

    # ---- texts --------------------------------------------------------------------------------

    def _shown(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(self._shown, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self._shown(x)}" for key, x in value.items()) + "}"
        return str(value)

    def _tensor(self, x: Tensor) -> str:
        from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensor

        name = "ft" if isinstance(x, FakeTensor) else "t"
        if self.record_ids:
            if x not in self._ids:
                self._ids[x] = next(self._numbers)
            name += f"${self._ids[x]}"
        attributes = [
            f"{attribute}={getattr(x, attribute)}"
            for attribute in self.record_tensor_attributes
            if hasattr(x, attribute)
        ]
        noted = f"{{{', '.join(attributes)}}}" if attributes else ""
        return f"{name}{noted}: {dtype_abbrs[x.dtype]}{list(x.shape)}"

    def debug_string(self, show_stack_trace: bool | None = None) -> str:
        """The calls, one a line, each as deep as it lies in others."""
        show = self.record_stack_trace if show_stack_trace is None else show_stack_trace
        lines: list[str] = []
        before = None
        for call in self.logs:
            place = call.stack_trace[-1] if call.stack_trace else None
            indent = "  " * (call.call_depth + 1)
            if show and place is not None and place != before:
                lines += ([""] if lines else []) + [f"{indent}# File: {place}"]
                before = place
            lines.append(indent + call.render())
        return "\n".join(lines)

    # ---- hooks --------------------------------------------------------------------------------

    @staticmethod
    @scoped
    def dispatch_hooks(
        record_hook: Callable[..., dict[str, Any] | None] | None = None,
        log_hook: Callable[..., dict[str, Any] | None] | None = None,
        pre_log_hook: Any = None,
    ) -> Scope:
        """Functions of (operator, types, args, kwargs, result) whose dicts are kept at each call:
        log_hook's are shown."""
        added = [
            (_hooks[name], hook)
            for name, hook in (("record", record_hook), ("log", log_hook))
            if hook is not None
        ]
        return Scope(
            *(
                (partial(hooks.append, hook), None, partial(hooks.remove, hook))
                for hooks, hook in added
            )
        )

    @staticmethod
    @contextlib.contextmanager
    def record_outputs() -> Iterator[None]:
        """Copies of results, kept at each call."""

        def record(func: Any, types: Any, args: Any, kwargs: Any, result: Any) -> dict[str, Any]:
            copied = pytree.tree_map_only(Tensor, lambda x: x.detach().clone(), result)
            return {"output": copied}

        with DebugMode.dispatch_hooks(record_hook=_quietly(record)):
            yield

    @staticmethod
    @contextlib.contextmanager
    def log_tensor_hashes(hash_fn: Any = "norm", hash_inputs: bool = False) -> Iterator[None]:
        """Hashes of results, and of inputs if hash_inputs, shown at each call.

        hash_fn: "norm", "hash_tensor", a function of a tensor, or a list of such."""
        chosen = hash_fn if isinstance(hash_fn, list) else [hash_fn]
        functions = [
            (lambda x, f=_HASHES[each]: f(x, use_scalar=True)) if isinstance(each, str) else each
            for each in chosen
        ]

        def hashed(x: Tensor) -> Any:
            found = tuple(function(x) for function in functions)
            return found[0] if len(found) == 1 else found

        def log(func: Any, types: Any, args: Any, kwargs: Any, result: Any) -> dict[str, Any]:
            noted = {}
            if hash_inputs:
                noted["input_hash"] = pytree.tree_map_only(Tensor, hashed, (args, kwargs))
            noted["hash"] = pytree.tree_map_only(Tensor, hashed, result)
            return noted

        with DebugMode.dispatch_hooks(log_hook=_quietly(log)):
            yield


def _quietly(hook: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A hook whose own operators are not noted, and need no gradients."""

    def quiet(*call: Any) -> dict[str, Any]:
        from tritorch.autograd.grad_mode import no_grad
        from tritorch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), no_grad():
            return hook(*call)

    return quiet
