"""torch.backends.mkldnn: there is no oneDNN here."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from tritorch.backends import _flags, _precision, mkl

if TYPE_CHECKING:  # what is made at run time
    from tritorch.backends.mkldnn_made import *  # noqa: F403


VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available() -> bool:
    """False: the CPU is NumPy."""
    return False


def is_acl_available() -> bool:
    """False: there is no Arm Compute Library."""
    return False


class verbose(mkl.verbose):
    """`with verbose(level):` changes nothing without oneDNN."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.level = level

    def __enter__(self) -> verbose:
        if self.level != VERBOSE_OFF:
            raise AssertionError(
                "Failed to set MKLDNN into verbose mode. Please consider to disable this verbose "
                "scope."
            )
        return self


class mkldnn:
    """The settings, which nothing asks for."""

    enabled = _flags.Flag(True)
    deterministic = _flags.Flag(False)
    allow_tf32 = _flags.Flag(None, object)
    fp32_precision = _precision.Precision("mkldnn")


matmul, conv, rnn = (_precision.of_operation("mkldnn", op) for op in ("matmul", "conv", "rnn"))


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    values = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32,
              "fp32_precision": _fp32_precision}  # fmt: skip
    return tuple(_flags.exchange(sys.modules[__name__], values).values())


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> contextlib.AbstractContextManager[None]:  # fmt: skip
    """Within it, the settings are these."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32,
              "fp32_precision": fp32_precision}  # fmt: skip
    return _flags.within(sys.modules[__name__], values)


_flags.install(__name__, mkldnn)
