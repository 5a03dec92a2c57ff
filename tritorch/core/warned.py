"""Warnings of operators: a call that warns gets no plan, so that it warns the next time too."""

from __future__ import annotations

import warnings

from tritorch import _C


def warn(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """`warnings.warn`, of which whoever records the call is told."""
    _C.unrecordable("it warns")
    warnings.warn(message, category, stacklevel + 1)
