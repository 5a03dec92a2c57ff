"""Selective checkpointing: what some functions computed is kept, the rest is computed again."""

from __future__ import annotations

import collections
import enum
import threading
from collections.abc import Callable
from typing import Any

from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried
from tritorch.overrides import TorchFunctionMode
from tritorch.trees.walk import tree_flatten, tree_unflatten


class CheckpointPolicy(enum.Enum):
    """What becomes of a call's result: kept, computed again, or kept in the CPU's memory."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_OFFLOAD = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)

# These ask for a tensor's description, which needs no policy.
SAC_IGNORED_OPS = frozenset(
    {"__get__", "__set__", "detach", "device", "dim", "is_contiguous", "numel", "size", "stride"}
)


class SelectiveCheckpointContext:
    """What a policy is told: whether this is the second pass."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def _policy_from_bool(b: bool) -> CheckpointPolicy:
    """The policy of a function that says whether a result is kept."""
    return CheckpointPolicy.MUST_SAVE if b else CheckpointPolicy.PREFER_RECOMPUTE


class _VersionWrapper:
    """A value, which must not have been written since."""

    def __init__(self, val: Any) -> None:
        self.val = val
        self.version = val._version if isinstance(val, Tensor) else None

    def get_val(self, allow_cache_entry_mutation: bool) -> Any:
        """The value; raises if it was written, unless that is allowed."""
        if not allow_cache_entry_mutation and self.version is not None:
            if self.val._version != self.version:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated"
                )
        return self.val


class _Kept:
    """A tensor, and how it was when it was kept."""

    def __init__(self, tensor: Tensor, offload: bool) -> None:
        self.device, self.wants_grad = tensor.device, tensor.requires_grad
        self.kept = _VersionWrapper(tensor.detach().cpu() if offload else tensor.detach())

    def take(self, mutable: bool) -> Tensor:
        return self.kept.get_val(mutable).to(self.device).detach().requires_grad_(self.wants_grad)


class _Call:
    """One call's results, and which tensors its node saved: arguments, results or others."""

    def __init__(self, out: Any, saved: list[Tensor], leaves: list[Any], offload: bool) -> None:
        outs, self.spec = tree_flatten(out)
        self.outs = [_Kept(o, offload) if isinstance(o, Tensor) else o for o in outs]
        known = {_identity(t): i for i, t in enumerate([*leaves, *outs]) if isinstance(t, Tensor)}
        self.saved = [known.get(_identity(t), _Kept(t, offload)) for t in saved]

    def replay(self, leaves: list[Any], mutable: bool) -> tuple[Any, list[Tensor]]:
        outs = [o.take(mutable) if isinstance(o, _Kept) else o for o in self.outs]
        known = [*leaves, *outs]
        saved = [s.take(mutable) if isinstance(s, _Kept) else known[s] for s in self.saved]
        return tree_unflatten(outs, self.spec), saved


def _identity(t: Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), t.dtype, tuple(t.shape), t.stride()


_frames = carried(threading.local())


def active(frame: Any) -> Scope:
    """Within it, modes tell this frame what calls save."""
    return Scope((_frames, "frame", frame))


class SelectiveMode(TorchFunctionMode):
    """One of both passes of a checkpointed call."""

    def __init__(
        self, policy: Callable[..., Any], calls: Any, is_recompute: bool, mutable: bool
    ) -> None:
        super().__init__()
        self.policy, self.calls, self.mutable = policy, calls, mutable
        self.context = SelectiveCheckpointContext(is_recompute=is_recompute)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        policy = self.policy(self.context, func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = _policy_from_bool(policy)
        if policy in _RECOMPUTE:
            return func(*args, **kwargs)
        leaves = tree_flatten((args, kwargs))[0]
        if not self.context.is_recompute:
            with _frames.frame.watched() as saved:
                out = func(*args, **kwargs)
            self.calls[name].append(_Call(out, saved, leaves, policy in _OFFLOAD))
            return out
        if not self.calls[name]:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        out, saved = self.calls[name].popleft().replay(leaves, self.mutable)
        for tensor in saved:
            _frames.frame.keep(tensor)
        return out


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[SelectiveMode, SelectiveMode]:
    """The contexts of both passes, to be given as `context_fn` by functools.partial.

    A policy gets the context, the function that is called (as torch.overrides show it: tensors'
    operators are methods) and its arguments. A list names the functions that are kept; a
    function, its method and its operator are one.
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not callable(op):
                raise ValueError(
                    f"Expected op in `op_list` to be a function but got: {op} of type {type(op)}."
                )
        names = {op.__name__ for op in policy_fn_or_list}
        policy = lambda ctx, func, *args, **kwargs: getattr(func, "__name__", "") in names
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    calls: Any = collections.defaultdict(collections.deque)
    first, second = (
        SelectiveMode(policy, calls, again, allow_cache_entry_mutation) for again in (False, True)
    )
    return first, second
