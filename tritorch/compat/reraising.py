"""Exceptions of threads and processes, raised again in those that wait for them."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn


class KeyErrorMessage(str):
    """A text that KeyError shows as it is: KeyError prints the repr, in one line."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """The current exception as its type and its traceback in words, which can be pickled."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info if exc_info is not None else sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raises the same type of exception, with the traceback in its message."""
        message: str = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:  # its constructor takes something else
            raise RuntimeError(message) from None
        raise error
