"""Checkpointing: forward is computed again in the backward pass instead of being kept."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tritorch import _C, autograd
from tritorch.amp.autocast_mode import autocast
from tritorch.amp.state import (
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    state as _autocast,
)
from tritorch.autograd.function import Function
from tritorch.autograd.graph import SAVED_INFERENCE, modified
from tritorch.core.device import device as Device
from tritorch.core.generator import cuda_generator, default_generator
from tritorch.core.naming import package
from tritorch.core.scopes import Giving, Scope, ScopeItself, scoped, set_back, sets
from tritorch.core.tensor import Tensor
from tritorch.overrides import TorchFunctionMode
from tritorch.trees.walk import tree_flatten
from tritorch.utils.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _policy_from_bool as _policy_from_bool,
    _VersionWrapper as _VersionWrapper,
    active,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy",
    "DefaultDeviceType", "GraphExecGroup", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip

# ---- what a recomputation must find as it was ----------------------------------------------------


class DefaultDeviceType:
    """The type of device whose random states are kept where no tensor tells."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """What was set; else "cuda" where there is a GPU."""
        if not DefaultDeviceType._default_device_type:
            there = _C.device_count() > 0
            DefaultDeviceType._default_device_type = "cuda" if there else "cpu"
        return DefaultDeviceType._default_device_type


def _get_device_module(device: str = "cuda") -> Any:
    """torch.cuda and its like; of what has no memory, the device."""
    if device == "meta":
        return Device("meta")
    return getattr(package(), device)


def _infer_device_type(*args: Any) -> str:
    """The type of the first tensor's device that is not the CPU; what was set, without such."""
    tensors = [a for a in tree_flatten(args)[0] if isinstance(a, Tensor)]
    kinds = [t.device.type for t in tensors if t.device.type != "cpu"]
    if len(set(kinds)) > 1:
        warnings.warn(
            f"Tensors among the arguments are on devices of several types, {sorted(set(kinds))}: "
            "states of random numbers are kept of one of them only, CUDA's if it is among them.",
            stacklevel=2,
        )
    if not kinds:
        return DefaultDeviceType.get_device_type()
    return "cuda" if "cuda" in kinds else kinds[0]


def _get_autocast_kwargs(
    device_type: str = "cuda",
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What `autocast` takes to be as it is now, for a type of device and for the CPU."""
    found = [
        {
            "enabled": is_autocast_enabled(kind),
            "dtype": get_autocast_dtype(kind),
            "cache_enabled": is_autocast_cache_enabled(),
        }
        if is_autocast_available(kind)
        else None
        for kind in (device_type, "cpu")
    ]
    return found[0], found[1] or {}


def _internal_assert(cond: Any) -> None:
    if not cond:
        raise AssertionError("Something went wrong in a checkpoint, which is a mistake of its own.")


def _default_meta_extractor(x: Tensor) -> dict[str, Any]:
    """What is compared of tensors that are computed again."""
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The indices of the GPUs that tensors among the arguments are on, and the generators'
    states there."""
    found = (a for a in tree_flatten(args)[0] if isinstance(a, Tensor) and a.is_cuda)
    indices = sorted({a.get_device() for a in found})
    return indices, [cuda_generator(i).get_state() for i in indices]


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Sets generators of GPUs to the states of `get_device_states`."""
    if (device_type or DefaultDeviceType.get_device_type()) == "cuda":
        for i, state in zip(devices, states):
            cuda_generator(i).set_state(state)


class _Surroundings:
    """Random states, and autocast's settings, to compute the same again."""

    def __init__(self, args: Any, random: bool = True) -> None:
        self.cpu = default_generator.get_state() if random else None
        self.gpus = get_device_states(*args) if random else ([], [])
        types = [name for name in _autocast.enabled if name == "cpu" or _C.device_count()]
        self.casts = [
            (name, _autocast.dtypes[name], _autocast.enabled[name], _autocast.caches)
            for name in types
        ]

    def restored(self) -> Scope:
        """Within it, they are as they were."""
        indices = self.gpus[0]
        cpu = default_generator.get_state()
        gpus = [cuda_generator(i).get_state() for i in indices]
        casts = [autocast(*cast) for cast in self.casts]
        if self.cpu is None:
            return Scope(*casts)
        return Scope(
            *casts,
            set_back(_set_states, cpu, indices, gpus),
            sets(_set_states, self.cpu, *self.gpus),
        )


def _set_states(cpu: Any, indices: Iterable[int], gpus: Iterable[Tensor]) -> None:
    default_generator.set_state(cpu)
    set_device_states(indices, gpus, device_type="cuda")


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no tensor wants a gradient, so that none will come back."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without history that want the gradients that the originals wanted."""
    out = []
    for x in inputs:
        if isinstance(x, Tensor):
            y = x.detach()
            y.requires_grad = x.requires_grad
            out.append(y)
        else:
            out.append(x)
    return tuple(out)


class CheckpointFunction(Function):
    """The reentrant form: a backward pass inside the backward pass."""

    _of_package = True

    @staticmethod
    def forward(ctx: Any, run: Any, preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.surroundings = _Surroundings(args, preserve)
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for position, tensor in zip(ctx.positions, ctx.saved_tensors):
            args[position] = tensor
        inputs = detach_variable(tuple(args))
        with ctx.surroundings.restored(), autograd.enable_grad():
            outputs = ctx.run(*inputs)
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x._grad if isinstance(x, Tensor) else None for x in inputs))


class CheckpointError(RuntimeError):
    """The second forward was not the first."""


class _Stop(Exception):
    """All that is needed is recomputed."""


class _Frame:
    """One checkpointed call: what it saved is named by order, and computed again on demand.

    The tensors of a recomputation are kept for all nodes of the call, so one is enough however many
    backward passes there are.
    """

    def __init__(
        self,
        again: Callable[[], Any],
        early_stop: bool,
        check: bool,
        explain: Callable[[], str],
    ) -> None:
        self.again, self.early_stop, self.check = again, early_stop, check
        self.explain = explain
        self.metadata: list[Any] = []
        self.recomputed: list[Tensor] | None = None
        self._watch: list[Tensor] | None = None

    def watched(self) -> Scope:
        """Within it, what is saved is listed too."""
        found: list[Tensor] = []
        return Giving(found, (self, "_watch", found))

    def keep(self, tensor: Tensor) -> Tensor:
        """Takes the next tensor that a recomputation saves."""
        if not (self.early_stop and len(self._found) == len(self.metadata)):
            self._found.append(tensor.detach())
        if self.early_stop and len(self._found) == len(self.metadata):
            raise _Stop
        return tensor

    def pack(self, tensor: Tensor) -> int:
        if self._watch is not None:
            self._watch.append(tensor)
        self.metadata.append((tensor.shape, tensor.dtype, tensor.device))
        return len(self.metadata) - 1

    def unpack(self, index: int) -> Tensor:
        if self.recomputed is None:
            self.recomputed = self._recompute()
        return self.recomputed[index]

    def _recompute(self) -> list[Tensor]:
        self._found: list[Tensor] = []
        with (
            contextlib.suppress(_Stop),
            active(self),
            autograd.graph.saved_tensors_hooks(self.keep, lambda t: t),
            autograd.enable_grad(),
        ):
            self.again()
        found, self._found = self._found, []
        if len(found) != len(self.metadata):
            raise CheckpointError(
                f"torch.utils.checkpoint: A different number of tensors was saved during the "
                f"original forward and recomputation.\nNumber of tensors saved during forward: "
                f"{len(self.metadata)}\nNumber of tensors saved during recomputation: "
                f"{len(found)}.{self.explain()}"
            )
        for i, (tensor, meta) in enumerate(zip(found, self.metadata)):
            if self.check and (tensor.shape, tensor.dtype, tensor.device) != meta:
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following tensors "
                    "have different metadata than during the forward pass.\ntensor at "
                    f"position {i}:\nsaved metadata: {meta}\nrecomputed metadata: "
                    f"{(tensor.shape, tensor.dtype, tensor.device)}{self.explain()}"
                )
        return found


# ---- settings ------------------------------------------------------------------------------------

_early_stop, _debug = True, None


@scoped
def set_checkpoint_early_stop(enable: bool) -> Scope:
    """Within it, whether checkpointed calls stop to compute again once all is there that the
    backward pass needs."""
    return Scope((sys.modules[__name__], "_early_stop", enable))


@scoped
def set_checkpoint_debug_enabled(enabled: bool | None) -> Scope:
    """Within it, `debug` of checkpointed calls, whatever they were given; None: as given."""
    return Scope((sys.modules[__name__], "_debug", enabled))


class GraphExecGroup(ScopeItself):
    """Several backward passes for which a call is computed again once: it always is here."""

    _current: GraphExecGroup | None = None

    def changes(self) -> Any:
        if GraphExecGroup._current is not None:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested. Already inside group "
                f"{GraphExecGroup._current}"
            )
        return ((GraphExecGroup, "_current", self),)


class _Log(TorchFunctionMode):
    """The functions that were called, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Any] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args), keeping only its inputs for the backward pass."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
            "exception. use_reentrant=False is recommended, but if you need to preserve the "
            "current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        if _C.is_grad_enabled():
            check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got {determinism_check}"
        )
    if not _C.is_grad_enabled():
        return function(*args, **kwargs)
    if debug if _debug is None else _debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        first, second = _Log(), _Log()
        context_fn = lambda: (first, second)
        explain = lambda: _differences(first.names, second.names)
    else:
        explain = str
    surroundings = _Surroundings((args, kwargs), preserve_rng_state)
    forward_context, again_context = context_fn()
    for x in args:
        if isinstance(x, Tensor) and x.is_inference() and not _C.is_inference_mode():
            raise RuntimeError(SAVED_INFERENCE)
    versions = [(x, x._version) for x in args if isinstance(x, Tensor) and not x.is_inference()]

    def again() -> None:
        for x, version in versions:
            if x._version != version:
                raise modified(x, x._version, version)
        with surroundings.restored(), again_context:
            function(*args, **kwargs)

    frame = _Frame(again, _early_stop and early_stop, determinism_check != "none", explain)
    hooks = autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack)
    with active(frame), hooks, forward_context:
        return function(*args, **kwargs)


def _differences(first: list[str], second: list[str]) -> str:
    """The functions of both passes, side by side."""
    rows = itertools.zip_longest(first, second, fillvalue="-")
    lines = (f"{'  ' if a == b else '! '}{a:<30}{b}" for a, b in rows)
    return "\n".join(["", "The functions that were called first, and again:", *lines])


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of functions in checkpointed segments; the last one is kept."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In version 2.9 we will raise an exception if use_reentrant is not "
            "passed. use_reentrant=False is recommended, but if you need to preserve the current "
            "default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    items = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(items) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for item in items[start : end + 1]:
                x = item(x)
            return x

        return forward

    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return run(end + 1, len(items) - 1)(input)
