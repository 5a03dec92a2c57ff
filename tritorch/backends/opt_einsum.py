"""torch.backends.opt_einsum: einsum multiplies from left to right."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from tritorch.backends import _flags


def is_available() -> bool:
    """False: paths of einsum are not optimised."""
    return False


def get_opt_einsum() -> Any:
    """None."""
    return None


def _refuse(name: str) -> Any:
    def effect(value: Any) -> None:
        if value:
            raise ValueError(
                f"opt_einsum is not available, so setting `{name}` to {value!r} would change "
                "nothing: einsum multiplies from left to right."
            )

    return effect


class opt_einsum:
    """The settings."""

    enabled = _flags.Flag(False, effect=_refuse("enabled"))
    strategy = _flags.Flag(None, (str, type(None)), effect=_refuse("strategy"))


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    values = {"enabled": _enabled, "strategy": _strategy}
    return tuple(_flags.exchange(sys.modules[__name__], values).values())


def flags(
    enabled: bool | None = None, strategy: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Within it, the settings are these."""
    return _flags.within(sys.modules[__name__], {"enabled": enabled, "strategy": strategy})


_flags.install(__name__, opt_einsum)
