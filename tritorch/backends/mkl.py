"""torch.backends.mkl: matrices are multiplied by NumPy's BLAS."""

from __future__ import annotations

from typing import Any

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """False: whichever library NumPy was built with does the work."""
    return False


class verbose:
    """`with verbose(VERBOSE_ON):` changes nothing without MKL."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass
