"""Starting several processes that run one function, and waiting for them."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1


class ProcessException(Exception):
    """A process started here has failed."""

    __slots__ = ("error_index", "error_pid", "msg")

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an exception of Python."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal, or with an exit code other than 0."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        known = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), known


def _end_with_parent() -> None:
    """Asks for SIGINT when the parent dies, however it does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], error_file: str) -> None:
    _end_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too, and tells
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that run one function."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The processes' ids."""
        return [int(process.pid) for process in self.processes]

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, until - time.monotonic()))

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one process has ended; True when all have.

        If one fails, the others are terminated (after `grace_period` seconds in which they may end
        by themselves) and its failure is raised.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            if not self.sentinels:
                self._forget_files()
            return not self.sentinels
        self._end_others(grace_period)
        self._raise(failed)
        return False

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._wait(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Killing process %s: it survived SIGTERM", process.pid)
                process.kill()
            process.join()

    def _forget_files(self) -> None:
        for name in self.error_files:
            with contextlib.suppress(OSError):
                os.unlink(name)

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        try:
            with open(self.error_files[index], "rb") as file:
                told = pickle.load(file) if os.fstat(file.fileno()).st_size else None
        except OSError:
            told = None
        self._forget_files()
        if told is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{told}",
                index, process.pid,
            )  # fmt: skip
        code, name = process.exitcode, None
        how = f"exit code {code}"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            how = f"signal {name}"
        raise ProcessExitedException(
            f"process {index} terminated with {how}", index, process.pid, code, name
        )


class SpawnContext(ProcessContext):
    """Processes started by `spawn`."""


def start_processes(
    fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Runs fn(i, *args) in `nprocs` processes; waits for them, or gives what to wait with."""
    context = multiprocessing.get_context(start_method)
    processes, files = [], []
    for index in range(nprocs):
        # The child only fills it: a killed one leaves it empty.
        descriptor, name = tempfile.mkstemp(prefix="tritorch-error-", suffix=".pickle")
        os.close(descriptor)
        process = context.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, index, args, name), daemon=daemon
        )
        process.start()
        processes.append(process)
        files.append(name)
    started = ProcessContext(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`start_processes`, each in an interpreter of its own."""
    if start_method != "spawn":
        warnings.warn(
            f"spawn() always starts processes by 'spawn' (got: {start_method}); to start them "
            f"otherwise: tritorch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
