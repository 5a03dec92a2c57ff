"""torch.backends.opt_einsum: in which order einsum multiplies more than two operands.

With the package opt_einsum it is asked; without it the pair that grows memory least comes first.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from tritorch.backends import _flags
from tritorch.ops.linalg.einsum import paths

if TYPE_CHECKING:  # what is made at run time
    from tritorch.backends.opt_einsum_made import *  # noqa: F403


_available = paths.enabled


def is_available() -> bool:
    """Whether the package is installed."""
    return _available


def get_opt_einsum() -> Any:
    """The package, or None."""
    if not _available:
        return None
    import opt_einsum

    return opt_einsum


def _set_enabled(value: bool) -> None:
    if value and not _available:
        raise ValueError(
            f"opt_einsum is not available, so setting `enabled` to {value} will not reap the "
            "benefits of calculating an optimal path for einsum. torch.einsum will fall back to "
            "contracting from left to right. To enable this optimal path calculation, please "
            "install opt-einsum."
        )
    paths.enabled = value


def _set_strategy(value: str | None) -> None:
    """Any that the package knows; it says so when it is asked for a path."""
    paths.strategy = value


def _check_strategy(value: str | None, enabled: bool | None) -> None:
    if value is None:
        return
    if not (paths.enabled if enabled is None else enabled):
        there = "enabled" if _available else "available"
        remedy = "Please set `enabled` to `True` as well or unset `strategy`." if _available else (
            "Please install opt_einsum or unset `strategy`."
        )  # fmt: skip
        raise ValueError(
            f"opt_einsum is not {there}, so setting a `strategy` to {value} will not be "
            "meaningful. torch.einsum will bypass path calculation and simply contract from left "
            f"to right. {remedy}"
        )
    if value not in ("auto", "greedy", "optimal"):
        raise ValueError(
            f"`strategy` must be one of the following: [auto, greedy, optimal] but is {value}"
        )


class opt_einsum:
    """The settings."""

    enabled = _flags.Flag(False, object, effect=_set_enabled, read=lambda: paths.enabled)
    strategy = _flags.Flag(None, object, effect=_set_strategy, read=lambda: paths.strategy)


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    _check_strategy(_strategy, _enabled)
    values = {"enabled": _enabled, "strategy": _strategy}
    return tuple(_flags.exchange(sys.modules[__name__], values).values())


def flags(
    enabled: bool | None = None, strategy: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Within it, the settings are these."""
    _check_strategy(strategy, enabled)
    return _flags.within(sys.modules[__name__], {"enabled": enabled, "strategy": strategy})


_flags.install(__name__, opt_einsum)
