"""What autocast does to a call, by the words of the function's declaration (`published.autocast`).

    lower     inputs become the region's dtype: products, where speed is
    float32   inputs become float32: losses, norms, exponentials, where range is
    sum       the result is float32 (`dtype=float32`): sums and softmax
    widest    inputs become the widest dtype among them

float64 and integer tensors are left alone, as are tensors on the other kind of device.  Inside the
call autocast is off, so one call is cast once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tritorch import _C
from tritorch.amp.state import state
from tritorch.core import gates, scopes
from tritorch.core.dtype import bfloat16, dtype as Dtype, float16, float32
from tritorch.core.published import AUTOCAST
from tritorch.core.tensor import Tensor

How = Callable[[Callable[..., Any], Any, Any, str], Any]
_NARROW = (float16, bfloat16, float32)


# ---- casts ---------------------------------------------------------------------------------------


def _eligible(value: Any, device: str) -> bool:
    return (
        isinstance(value, Tensor)
        and value.dtype in _NARROW
        and ("cuda" if value.is_cuda else "cpu") == device
    )


def cast(value: Any, dtype: Dtype, device: str) -> Any:
    """A value with the tensors in it cast; parameters' casts are kept."""
    if isinstance(value, Tensor):
        if value.dtype is dtype or not _eligible(value, device):
            return value
        # Of a deferred tensor, `_leaf` would be a flush.
        leaf = value.requires_grad and value.is_leaf
        if not (state.caches and leaf and dtype is state.dtypes[device]):
            return value.to(dtype)
        # A cast that was made without a graph must not serve where one is wanted.
        key = (id(value), dtype, _C.is_grad_enabled())
        kept = state.cast.get(key)
        stale = kept is None or kept[0] is not value or kept[1] != value._version
        if stale or _C.is_lost(kept[2]):  # a compiled function that failed has left none
            kept = state.cast[key] = (value, value._version, value.to(dtype))
        return kept[2]
    if type(value) in (list, tuple):
        return type(value)(cast(item, dtype, device) for item in value)
    return value


def _cast_all(
    args: Any, kwargs: Any, dtype: Dtype, device: str
) -> tuple[list[Any], dict[str, Any]]:
    return (
        [cast(value, dtype, device) for value in args],
        {name: cast(value, dtype, device) for name, value in kwargs.items()},
    )


def lower(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """In the region's dtype."""
    args, kwargs = _cast_all(args, kwargs, state.dtypes[device], device)
    return function(*args, **kwargs)


def in_float32(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """In float32."""
    args, kwargs = _cast_all(args, kwargs, float32, device)
    return function(*args, **kwargs)


def into_float32(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """With a float32 result, unless the call says which dtype."""
    if kwargs.get("dtype") is None and not any(isinstance(value, Dtype) for value in args):
        if args and _eligible(args[0], device):
            return function(cast(args[0], float32, device), *args[1:], **kwargs)
        if _eligible(kwargs.get("input"), device):
            kwargs = {**kwargs, "input": cast(kwargs["input"], float32, device)}
    return function(*args, **kwargs)


def _lower_then_float32(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """linear_cross_entropy: a product, and a loss."""
    return lower(function, args, kwargs, device).float()


def _lower_unless_scalar(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """inner, tensordot: contractions to one number are dot products, which are not lowered."""
    result = function(*args, **kwargs)
    if isinstance(result, Tensor) and result.ndim == 0:
        return result
    return lower(function, args, kwargs, device)


def _float32_without_indices(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """max_pool3d: with indices it is another function, which has no policy."""
    if kwargs.get("return_indices") or (len(args) > 6 and args[6]):
        return function(*args, **kwargs)
    return in_float32(function, args, kwargs, device)


def in_widest(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """In the widest dtype among the inputs."""
    found = {t.dtype for t in _tensors((*args, *kwargs.values())) if _eligible(t, device)}
    low = state.dtypes[device]
    if float32 not in found and not found <= {low}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    widest = float32 if float32 in found else low
    args, kwargs = _cast_all(args, kwargs, widest, device)
    return function(*args, **kwargs)


def refuse(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """An error: what it takes is not safe in float16."""
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def _in_float32_if_it_reads(function: Any, args: Any, kwargs: Any, device: str) -> Any:
    """pad: reflection and replication in float32 where PyTorch's kernels know no other."""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
    dims = len(kwargs.get("pad", args[1] if len(args) > 1 else ())) // 2
    if (mode == "reflect" and dims < 3) or mode == "replicate":
        return in_float32(function, args, kwargs, device)
    return function(*args, **kwargs)


# ---- the words -----------------------------------------------------------------------------------

HOW: dict[str, How] = {
    "lower": lower, "float32": in_float32, "sum": into_float32, "widest": in_widest,
    "refuse": refuse, "lower-unless-number": _lower_unless_scalar,
    "lower-then-float32": _lower_then_float32,
    "float32-without-indices": _float32_without_indices,
    "float32-if-it-reads": _in_float32_if_it_reads,
}  # fmt: skip


def by_device(words: str) -> dict[str, How | None]:
    """What a declaration's words ask for, by the kind of device."""
    said = dict.fromkeys(("cpu", "cuda"), words)
    if ":" in words:
        given = dict(word.split(":") for word in words.split())
        said = {kind: given.get(kind, "") for kind in said}
    return {kind: HOW[word] if word else None for kind, word in said.items()}


class Policy:
    """A name's policies, for CPU and GPU: what its gate calls while autocast is on."""

    def __init__(self, words: str) -> None:
        self.by_device = by_device(words)

    def __call__(self, function: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("out") is not None:  # as in PyTorch: what is written to decides
            return function(*args, **kwargs)
        device = "cpu"
        for tensor in _tensors((*args, *kwargs.values())):
            if tensor.is_cuda:
                device = "cuda"
                break
        how = self.by_device[device] if state.enabled[device] else None
        if how is None:
            return function(*args, **kwargs)
        with scopes.Scope((_C.set_autocast, False)):
            return how(function, args, kwargs, device)


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            for item in value:
                if isinstance(item, Tensor):
                    yield item


def without(name: str, device: str) -> Callable[[], None]:
    """Leaves the inputs of a function as they are on a kind of device; gives what undoes it."""
    policy = gates.POLICIES.get(name)
    if policy is None:
        return lambda: None
    before, policy.by_device[device] = policy.by_device[device], None
    return lambda: policy.by_device.__setitem__(device, before)


def install() -> None:
    """Gives every gate its policy; called when amp is first used."""
    gates.POLICIES.update({name: Policy(words) for name, words in AUTOCAST.items()})
    for made in gates.GATES.values():
        for gate in made.values():
            shown = gate.shown or gate
            gate.policy = gates.POLICIES.get(shown.__name__) or gates.POLICIES.get(gate.__name__)
