"""How a process writes down the error that ends it."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import time
import traceback
from pathlib import Path
from typing import Any

__all__ = ["ErrorHandler"]

RAISED = ".raised"  # beside an error file, of a process that ends


class ErrorHandler:
    """Writes an error into the file that TORCHELASTIC_ERROR_FILE names, if it is set."""

    def _get_error_file_path(self) -> str | None:
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self) -> None:
        """Has Python say where it was when a signal ends the process."""
        with contextlib.suppress(Exception):  # where stderr is no file
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Writes down an error with its traceback."""
        told = "".join(traceback.format_exception(e))
        extra = {"py_callstack": told, "timestamp": str(time.time())}
        data = {"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}}
        self._write(data)

    def record_end(self) -> None:
        """Says that an error has ended the main thread: the process should be gone soon."""
        if path := self._get_error_file_path():
            Path(path + RAISED).touch()

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Makes the error of another process this one's."""
        with open(rootcause_error_file) as file:
            data = json.load(file)
        if error_code and isinstance(data.get("message"), dict):
            data["message"]["errorCode"] = error_code
        self._write(data)

    def _write(self, data: dict[str, Any]) -> None:
        path = self._get_error_file_path()
        if not path:
            return
        partial = f"{path}.{os.getpid()}"
        with open(partial, "w") as file:
            json.dump(data, file)
        os.replace(partial, path)  # whoever reads it finds all of it
