"""Stances: whether regions are followed, by `set_stance`, the settings and the limit of
recordings."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from tritorch.compilation.follow.calls import SourceLine
from tritorch.core.scopes import Scope

log = logging.getLogger("torch._dynamo.convert_frame")
# The stances that PyTorch has.  A first run is eager in any case, and recorded, so that those which
# put compilation off by one call are as the default.
KNOWN = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile",
    "fail_on_recompile",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class DynamoStance:
    """A stance of compiled functions."""

    stance: str = "default"
    skip_guard_eval_unsafe: bool = False
    backend: str | Callable[..., Any] | None = None


def take(stance: DynamoStance) -> DynamoStance:
    """Makes a stance the current one; returns the one before."""
    before = current
    Scope(*taken(stance)).__enter__()
    return before


current = DynamoStance()
plain = True  # nothing but the defaults: what each call asks


def taken(stance: DynamoStance) -> tuple[Any, ...]:
    """The changes that make a stance the current one, Note [Scopes]."""
    from tritorch.compilation.follow.regions import following

    if following() is not None:
        raise RuntimeError("attempted to set_stance in a torch.compile region")
    if stance.stance not in KNOWN:
        raise RuntimeError(f"invalid torch.compile stance '{stance}'")
    here = sys.modules[__name__]
    plain = stance.stance in KNOWN[:3] and stance.backend is None
    return (here, "current", stance), (here, "plain", plain)


# ---- graph breaks that are errors ----------------------------------------------------------------


class _Strict(threading.local):
    errors: bool | None = None  # error_on_graph_break; None: what the region says


strict = _Strict()


def errors_on_graph_break(errors: bool | None) -> Scope:
    """Inside, a graph break raises, or does not; None: as outside."""
    return Scope((strict, "errors", strict.errors if errors is None else errors))


# ---- recordings ----------------------------------------------------------------------------------


def code_of(function: Any) -> SourceLine:
    """Where a function, or the forward of a module, is written."""
    owner = getattr(function, "__self__", None)
    found = inspect.unwrap(function)
    if getattr(found, "__name__", "") in ("__call__", "_call_impl", "_call_with_hooks"):
        found = inspect.unwrap(getattr(owner, "forward", found))
    code = getattr(found, "__code__", None)
    if code is None:
        return SourceLine("<unknown>", 0, getattr(found, "__name__", type(found).__name__))
    return SourceLine(code.co_filename, code.co_firstlineno, code.co_name)


def may_record(follower: Any, known: int, why: str = "") -> bool:
    """True if a run that no trace matches is recorded; it raises where that is an error.

    known: how many traces were recorded before; why: none of them matches."""
    from tritorch.compat.torch_private._dynamo import config, exc

    file, line, name = code_of(follower.function)
    if current.stance == "fail_on_recompile":
        raise RuntimeError(
            "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
            f"filename: '{file}', function name: '{name}', line number: {line}"
        )
    if current.stance == "eager_on_recompile" or config.disable:
        return False
    if not known:
        return True
    if config.error_on_recompile:
        raise exc.RecompileError(recompilation(follower, why))
    limit = _limit(follower.options)
    if known < limit:
        return True
    if not getattr(follower, "_limit_was_hit", False):
        follower._limit_was_hit = True
        log.warning(
            "torch._dynamo hit config.recompile_limit (%s)\n   function: '%s' (%s:%s)\n"
            '   last reason: %s\nTo log all recompilation reasons, use TORCH_LOGS="recompiles".',
            limit, name, file, line, why,
        )  # fmt: skip
    if follower.options.fullgraph or config.fail_on_recompile_limit_hit:
        raise exc.FailOnRecompileLimitHit("Hard failure due to fullgraph=True")
    return False


def _limit(options: Any) -> float:
    """The limit of recorded traces.  Backends are asked for each; for the package's own, which
    looks at a call once, the setting counts only where a program has changed it."""
    from tritorch.compat.torch_private._dynamo import config

    if options.recompile_limit is not None:
        return options.recompile_limit
    default = vars(config)["_default"]["recompile_limit"]
    if options.backend is None and config.recompile_limit == default:
        return float("inf")
    return config.recompile_limit


def recompilation(follower: Any, why: str) -> str:
    """Says that a region is recorded again, and why."""
    file, line, name = code_of(follower.function)
    return (
        f"Recompiling function {name} in {file}:{line}\n"
        f"    triggered by the following guard failure(s):\n    - {why}"
    )
