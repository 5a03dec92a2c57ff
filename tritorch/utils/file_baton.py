"""A lock between processes that is a file."""

from __future__ import annotations

import os
import time
import warnings


class FileBaton:
    """Held by who could create the file; others wait until it is gone."""

    def __init__(
        self,
        lock_file_path: str,
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Whether this one holds it now."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Returns when nobody holds it."""
        began, warned = time.time(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            late = self.warn_after_seconds
            if late is not None and not warned and time.time() - began > late:
                warned = True
                warnings.warn(
                    f'Waited on lock file "{self.lock_file_path}" for {late} seconds.', stacklevel=2
                )

    def release(self) -> None:
        """Lets it go."""
        if self.fd is not None:
            os.close(self.fd)
        os.remove(self.lock_file_path)
