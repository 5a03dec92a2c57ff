"""Launch plans: how a compiled kernel is launched, in values that can be stored."""

from __future__ import annotations

import sys
from typing import Any

from tritorch import _C


def allocate_scratch(size: int, alignment: int, stream: int, zeroed: bool) -> Any:
    """Memory that a compiled kernel asked for: from the user's allocator if there is one."""
    allocation: Any = sys.modules.get("triton.runtime._allocation")
    if hasattr(allocation, "NullAllocator"):  # it is there, and whole; else nobody has set one
        chosen = allocation._profile_allocator if zeroed else allocation._allocator
        allocator = chosen.get()
        if not isinstance(allocator, allocation.NullAllocator):
            return allocator(size, alignment, stream)
    array = _C.allocate_bytes(size, _C.current_device(), stream)
    if zeroed:
        _C.fill_dense(array, b"\0", stream)
    return array


def plan_of(signature: dict[str, Any], metadata: Any, has_rounding_flag: bool) -> dict[str, Any]:
    """The plan of what Triton compiled; JSON has all its values."""
    return {
        "signature": tuple(signature.values()),
        "num_warps": metadata.num_warps,
        "num_ctas": getattr(metadata, "num_ctas", 1),
        "shared": metadata.shared,
        "cooperative": bool(metadata.launch_cooperative_grid),
        "dependent": bool(metadata.launch_pdl),
        "scratch": (metadata.global_scratch_size, metadata.global_scratch_align),
        "profile": (metadata.profile_scratch_size, metadata.profile_scratch_align),
        "meta": getattr(metadata, "tensordesc_meta", None),
        "has_rounding_flag": has_rounding_flag,
        "pads_fp4_shape": not has_rounding_flag,
    }


def is_plan(value: Any) -> bool:
    """Whether it has a plan's fields, each of its kind."""
    pair = lambda x: isinstance(x, (list, tuple)) and len(x) == 2 and all(map(_is_count, x))
    kinds: dict[str, Any] = {
        "signature": lambda x: isinstance(x, (list, tuple)),
        "num_warps": _is_count, "num_ctas": _is_count, "shared": _is_count,
        "cooperative": _is_flag, "dependent": _is_flag, "scratch": pair, "profile": pair,
        "meta": lambda x: x is None or isinstance(x, list),
        "has_rounding_flag": _is_flag, "pads_fp4_shape": _is_flag,
    }  # fmt: skip
    return (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(is_kind(value[name]) for name, is_kind in kinds.items())
    )


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def launcher(plan: dict[str, Any]) -> _C.Launcher:
    """Of a plan, also of one that was stored as JSON."""
    tuples = {name: _tuples(plan[name]) for name in ("signature", "scratch", "profile")}
    return _C.Launcher(**plan | tuples, allocate_scratch=allocate_scratch)
