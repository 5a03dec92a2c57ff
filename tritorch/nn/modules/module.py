"""`Module`: parameters, buffers and submodules by name, hooks, and state dicts."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tritorch import _C
from tritorch.arrays.meta import NO_DATA
from tritorch.autograd import no_grad
from tritorch.core import late_bound, published
from tritorch.core.device import device as Device
from tritorch.core.dtype import as_dtype, dtype as Dtype
from tritorch.core.swap import swap_tensors
from tritorch.core.tensor import Tensor
from tritorch.nn.hooks import (
    BackwardHook,
    Hooks,
    RemovableHandle,
    _WrappedHook,
    add_hook,
    hook_last_node,
)
from tritorch.nn.modules.state import (
    _EXTRA_STATE_KEY_SUFFIX,  # noqa: F401  (programs import it from here)
    StateDict,
    _IncompatibleKeys,  # noqa: F401
)
from tritorch.nn.parameter import Buffer, Parameter, is_lazy


class _GlobalHooks:
    """Hooks of all modules."""

    def __init__(self) -> None:
        table: Callable[[], Hooks] = OrderedDict
        self.forward_pre, self.forward = table(), table()
        self.with_kwargs, self.always_called = table(), table()
        self.backward_pre, self.backward = table(), table()
        self.buffer, self.module, self.parameter = table(), table(), table()
        self.non_full_backward: bool | None = None

    def calls(self) -> bool:
        """Whether any of them runs at a call."""
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)


_global = _GlobalHooks()
_global_forward_pre_hooks, _global_forward_hooks = _global.forward_pre, _global.forward
_global_backward_pre_hooks, _global_backward_hooks = _global.backward_pre, _global.backward
_global_forward_hooks_with_kwargs = _global.with_kwargs
_global_forward_hooks_always_called = _global.always_called
_global_buffer_registration_hooks = _global.buffer
_global_module_registration_hooks = _global.module
_global_parameter_registration_hooks = _global.parameter


def _has_any_global_hook() -> bool:
    """Whether a hook of all modules runs at each call."""
    return _global.calls()


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` at each registration of a buffer; may return another."""
    return add_hook(_global.buffer, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` at each registration of a module; may return another."""
    return add_hook(_global.module, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, param)` at each registration of a parameter; may return another."""
    return add_hook(_global.parameter, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before every module's forward."""
    return add_hook(_global.forward_pre, hook)


def remove_module_hooks(*hooks: Any) -> None:
    """Takes such hooks, and those of `register_module_forward_hook`, away again."""
    for table in (_global.forward_pre, _global.forward):
        for key in [key for key, hook in list(table.items()) if hook in hooks]:
            table.pop(key, None)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after every module's forward."""
    marks = [_global.with_kwargs] if with_kwargs else []
    marks += [_global.always_called] if always_call else []
    return add_hook(_global.forward, hook, marks=marks)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` of every module (see the full one)."""
    if _global.non_full_backward is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global.non_full_backward = True
    return add_hook(_global.backward, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` before every module's backward."""
    return add_hook(_global.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` when every module's gradients are known."""
    if _global.non_full_backward:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global.non_full_backward = False
    return add_hook(_global.backward, hook)


def _forward_unimplemented(self: Module, *inputs: Any) -> Any:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


def _with_path(error: BaseException, module: Module) -> None:
    """Notes on an error where it was raised: "In module GPT: blocks.0.attn (Linear)"."""
    below, path, kind = getattr(error, "_raised_in", (None, "", type(module).__name__))
    if below is not None:
        name = next((name for name, child in module.named_modules() if child is below), None)
        if not name:
            return  # this one calls a module that is not part of it, or itself
        path = f"{name}.{path}" if path else name
    try:
        error._raised_in = (module, path, kind)  # type: ignore[attr-defined]
        notes = [n for n in getattr(error, "__notes__", ()) if not n.startswith("In module ")]
        where = f": {path} ({kind})" if path else ""
        error.__notes__ = [*notes, f"In module {type(module).__name__}{where}"]
    except AttributeError:
        pass  # an exception with slots


class _Signature:
    """How an instance is called, for `inspect`, which does not ask native methods."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature | None:
        if instance is None or type(instance).__call__ is not _C.ModuleBase.__call__:
            return None
        return _ANY_CALL


_ANY_CALL = inspect.signature(lambda *args, **kwargs: None)
T = TypeVar("T", bound="Module")


class Module(StateDict, _C.ModuleBase):
    """The base class of all neural networks.

    What is assigned as an attribute is registered by its type: parameters, buffers, modules.
    """

    dump_patches = False
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    call_super_init = False
    _compiled_call_impl: Any = None
    _is_full_backward_hook: bool | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_is_full_backward_hook"] = None
        for name in _HOOK_KINDS:
            fields[name] = OrderedDict()
        fields["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    __signature__ = _Signature()
    forward: Callable[..., Any] = _forward_unimplemented

    # ---- registering ------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is not a parameter but part of the state (if persistent)."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or "
                f"None required)"
            )
        for hook in list(_global.buffer.values()):
            replaced = hook(self, name, tensor)
            tensor = tensor if replaced is None else replaced
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """A parameter, by a name."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                f"(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                f"the value in the forward() method."
            )
        for hook in list(_global.parameter.values()):
            replaced = hook(self, name, param)
            param = param if replaced is None else replaced
        self._parameters[name] = param

    def _check_name(self, what: str, name: Any, table: Mapping[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def add_module(self, name: str, module: Module | None) -> None:
        """A submodule, by a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {_type_name(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        for hook in list(_global.module.values()):
            replaced = hook(self, name, module)
            module = module if replaced is None else replaced
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # ---- attributes -------------------------------------------------------------------------

    # `__getattr__` and `__setattr__` are native: src/nn/modules.h.

    def _set_registered(self, name: str, value: Any) -> None:
        """What `__setattr__` does where a name or a value may be one to register."""
        fields = self.__dict__
        params = fields.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, fields, fields["_buffers"], fields["_modules"])
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' "
                    f"(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = fields.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, fields, params, fields["_buffers"])
            for hook in list(_global.module.values()):
                replaced = hook(self, name, value)
                value = value if replaced is None else replaced
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' "
                    f"(torch.nn.Module or None expected)"
                )
            modules[name] = value
            return
        buffers = fields.get("_buffers")
        if isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' (torch.nn.Buffer, "
                    f"torch.Tensor or None expected)"
                )
            if isinstance(value, Buffer) and name not in (buffers or {}):
                if buffers is None:
                    raise AttributeError("cannot assign buffer before Module.__init__() call")
                self._forget(name, fields, params, modules)
                self.register_buffer(name, value, value.persistent)
                return
            for hook in list(_global.buffer.values()):
                replaced = hook(self, name, value)
                value = value if replaced is None else replaced
            assert buffers is not None
            buffers[name] = value
            return
        super(_C.ModuleBase, self).__setattr__(name, value)  # whose own is the caller

    def _forget(self, name: str, *tables: Any) -> None:
        for table in tables:
            if table is not None and name in table:
                del table[name]
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules,
                 *self._buffers]  # fmt: skip
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_KINDS:
            hooks = self.__dict__.setdefault(name, OrderedDict())
            if hooks:  # new keys must be others
                RemovableHandle.next_id = max(RemovableHandle.next_id, *(key + 1 for key in hooks))
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    # ---- the tree ---------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path ("" is this one)."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        *path, name = target.split(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(".".join(path))
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get(self, target: str, what: str, kind: Any) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        found = getattr(module, name)
        if not kind(module, name, found):
            raise AttributeError(f"`{name}` is not {what}")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        return self._get(target, "an nn.Parameter", lambda m, n, v: isinstance(v, Parameter))

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        return self._get(target, "a buffer", lambda m, n, v: n in m._buffers)

    def _named_members(
        self, members: Any, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in members(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths."""
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below, with their paths."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    # ---- to other devices and dtypes --------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """`fn(module)` for each module, this one last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _replicate_for_data_parallel(self) -> Any:
        """A shallow copy without parameters, for another GPU."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Every parameter, gradient and buffer replaced by `fn` of it; parameters stay the same
        objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        from tritorch.__future__ import (
            get_overwrite_module_params_on_conversion,
            get_swap_module_params_on_conversion,
        )

        for name, param in self._parameters.items():
            if param is None:
                continue
            with no_grad():
                converted = fn(param.data if not is_lazy(param) else param)
                swap = get_swap_module_params_on_conversion()
                if (swap or get_overwrite_module_params_on_conversion()) and not is_lazy(param):
                    fresh = Parameter(converted, param.requires_grad)
                    fresh.grad = None if param.grad is None else fn(param.grad)
                    if swap:  # who holds the parameter sees what it becomes
                        swap_tensors(param, fresh)
                    else:
                        self._parameters[name] = fresh
                    continue
                param.data = converted
                if param.grad is not None:
                    grad = fn(param.grad)
                    param.grad = None  # of another dtype or device now
                    param.grad = grad.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """To a device, a (floating or complex) dtype, a memory format, or what a tensor has."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors as "
                "parameters or buffers. Please file an issue at https://github.com/pytorch/pytorch/"
                "issues/new?template=bug-report.yml if a complex module does not work as expected.",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            floats = tensor.is_floating_point() or tensor.is_complex()
            if memory_format is not None and not is_lazy(tensor) and tensor.ndim in (4, 5):
                return tensor.to(
                    device, dtype if floats else None, non_blocking, memory_format=memory_format
                )
            return tensor.to(device, dtype if floats else None, non_blocking)

        try:
            return self._apply(convert)
        except NotImplementedError as error:
            if str(error) != NO_DATA:
                raise
            raise NotImplementedError(
                f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                f"when moving module from meta to a different device."
            ) from None

    def cuda(self, device: Any = None) -> Module:
        """To a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Module:
        """To host memory."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Module:
        """Everything to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def _floats(self, name: str) -> Module:
        return self._apply(lambda t: getattr(t, name)() if t.is_floating_point() else t)

    def float(self) -> Module:
        """Floats to float32."""
        return self._floats("float")

    def double(self) -> Module:
        """Floats to float64."""
        return self._floats("double")

    def half(self) -> Module:
        """Floats to float16."""
        return self._floats("half")

    def bfloat16(self) -> Module:
        """Floats to bfloat16."""
        return self._floats("bfloat16")

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """To a device, without copying."""
        return self._apply(lambda t: published.public.empty_like(t, device=device), recurse)

    def share_memory(self) -> Module:
        """Moves parameters, gradients and buffers where other processes can see them."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    def train(self, mode: bool = True) -> Module:
        """Training mode for this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        """Evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Whether parameters want gradients."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets, or zeroes, all gradients."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach().zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles the calls of this module in place, hooks included; arguments as `compile`'s."""
        self._compiled_call_impl = late_bound.compile(self._call_impl, *args, **kwargs)

    # ---- calls and hooks --------------------------------------------------------------------

    # `__call__` is native: it calls `forward` itself where it finds no hooks, no compiled call and
    # no other `_call_impl`.

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._backward_hooks or self._backward_pre_hooks or self._forward_hooks
            or self._forward_pre_hooks or _global.calls()
        ):  # fmt: skip
            try:
                return self.forward(*args, **kwargs)
            except Exception as error:
                _with_path(error, self)
                raise
        return self._call_with_hooks(args, kwargs)

    def _before(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of `forward`, as the hooks before it leave them."""
        for key, hook in [*_global.forward_pre.items(), *self._forward_pre_hooks.items()]:
            if key in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, "
                            f"new_kwargs), but got {replaced}."
                        )
                    args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        full, plain = self._backward_kinds()
        watch = None
        called = set()
        try:
            args, kwargs = self._before(args, kwargs)
            if full or self._backward_pre_hooks or _global.backward_pre:
                before = [*_global.backward_pre.values(), *self._backward_pre_hooks.values()]
                watch = BackwardHook(self, full, before)
                args = watch.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for key, hook in [*_global.forward.items(), *self._forward_hooks.items()]:
                called.add(key)
                result = self._after(key, hook, args, kwargs, result)
        except Exception as error:
            always = _global.always_called.keys() | self._forward_hooks_always_called.keys()
            for key, hook in [*_global.forward.items(), *self._forward_hooks.items()]:
                if key in always and key not in called:
                    try:
                        self._after(key, hook, args, kwargs, None)
                    except Exception as other:
                        warnings.warn(
                            f"module forward hook with ``always_call=True`` raised an exception "
                            f"that was silenced as another error was raised in forward: {other}",
                            stacklevel=2,
                        )
            _with_path(error, self)
            raise
        if watch is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    f"For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(result)}",
                    stacklevel=2,
                )
            result = watch.setup_output_hook(result)
        if plain:
            hook_last_node(self, plain, args, result)
        return result

    def _after(self, key: int, hook: Any, args: Any, kwargs: Any, result: Any) -> Any:
        with_kwargs = key in self._forward_hooks_with_kwargs or key in _global.with_kwargs
        replaced = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
        return result if replaced is None else replaced

    def _backward_kinds(self) -> tuple[list[Any], list[Any]]:
        """(full backward hooks, old ones)"""
        full: list[Any] = []
        plain: list[Any] = []
        (plain if _global.non_full_backward else full).extend(_global.backward.values())
        (full if self._is_full_backward_hook else plain).extend(self._backward_hooks.values())
        return full, plain

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` before forward; may return other arguments."""
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, prepend=prepend, marks=marks)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """`hook(module, args, output)` after forward; may return another output."""
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return add_hook(self._forward_hooks, hook, prepend=prepend, marks=marks)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's backward; may return other gradients."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when the inputs' gradients are known."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: the gradients of the last operator only."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    # ---- printing ---------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows of this module besides its submodules."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): {_addindent(repr(module))}" for name, module in self._modules.items()
        ]
        lines = extra_lines + child_lines
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


_C.register_module(
    Module._set_registered,
    _with_path,
    (_global.forward_pre, _global.forward, _global.backward_pre, _global.backward),
    Module._call_impl,
    Module._wrapped_call_impl,
)
_WrappedHook.__module__ = __name__  # where PyTorch has it, for pickles
_HOOK_KINDS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip


def _addindent(s_: str, numSpaces: int = 2) -> str:
    """A text whose lines, but for the first, are indented."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(numSpaces * " " + line for line in rest)])


def _type_name(value: Any) -> str:
    """A type's name as PyTorch's messages have it."""
    if isinstance(value, Tensor):
        return value.type().replace("tritorch.", "torch.")
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the forms of `to`."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    non_blocking, memory_format = kwargs.get("non_blocking", False), kwargs.get("memory_format")
    if "tensor" in kwargs:
        args = (kwargs["tensor"], *args)
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(as_dtype(value), Dtype):
            dtype = value
        elif isinstance(value, bool):
            non_blocking = value
        elif value is not None:
            device = Device(value)
    return (
        None if device is None else Device(device), as_dtype(dtype), non_blocking, memory_format,
    )  # fmt: skip
