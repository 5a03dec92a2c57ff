"""The workers of one host: processes that run a command, or call a function."""

from __future__ import annotations

import ctypes
import dataclasses
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.distributed.elastic.logs import LogsSpecs, Output, Std, line_prefix
from tritorch.distributed.elastic.multiprocessing.errors import (
    ProcessFailure,
    get_error_handler,
    record,
)
from tritorch.distributed.elastic.multiprocessing.errors.error_handler import RAISED

__all__ = ["Command", "Workers"]

_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Command:
    """What each worker does: words of a command line, or a function with its arguments."""

    entry: str | Callable[..., Any]
    arguments: Sequence[Any]
    start_method: str = "spawn"


@dataclasses.dataclass
class Printing:
    """What becomes of what workers print."""

    specs: LogsSpecs
    run_id: str
    role: str
    template: str | None
    filters: dict[Std, Sequence[str]]


def _with_parent() -> None:
    """Runs in a worker before its program: it ends when its launcher does, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _call(function: Any, arguments: Any, environment: dict[str, str], streams: Any, end: Any):  # type: ignore[no-untyped-def]
    os.environ.update(environment)
    _with_parent()
    for std, descriptor in streams.items():
        if descriptor is not None:
            os.dup2(descriptor, int(std))
    try:
        end.send(record(function)(*arguments))
    except Exception:
        get_error_handler().record_end()
        raise
    end.close()


def _filled(word: Any, local_rank: int) -> str:
    return str(word).replace("${local_rank}", str(local_rank))


class _Called:
    """A worker that calls a function, with subprocess's names."""

    def __init__(
        self, command: Command, environment: dict[str, str], given: dict[Std, Any]
    ) -> None:
        context: Any = multiprocessing.get_context(command.start_method)
        if command.start_method == "fork":
            streams = given
        else:  # a spawned process has none of our descriptors; its output is the launcher's
            streams = {}
        self._end, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_call,
            args=(command.entry, tuple(command.arguments), environment, streams, theirs),
        )
        self._process.start()
        theirs.close()
        self.pid, self._value = self._process.pid, None

    def poll(self) -> int | None:
        if self._end is not None and self._end.poll():
            try:
                self._value = self._end.recv()
            except EOFError:  # it has ended without a result
                self._end = None
        return self._process.exitcode

    def result(self) -> Any:
        self.poll()
        return self._value

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)


class Workers:
    """The processes of one round on this host."""

    def __init__(
        self,
        command: Command,
        environments: Sequence[dict[str, str]],
        printing: Printing,
        attempt: int,
    ) -> None:
        self.processes: list[Any] = []
        self._outputs: list[Output] = []
        self._error_files: list[str] = []
        self._raised: dict[int, float] = {}  # when an error had ended a worker's main thread
        self.ranks = [int(each["RANK"]) for each in environments]
        try:
            for i, environment in enumerate(environments):
                self._start(command, i, environment, printing, attempt)
        except BaseException:
            self.stop(signal.SIGKILL, 0)
            raise

    def _start(
        self, command: Command, i: int, environment: dict[str, str], printing: Printing,
        attempt: int,
    ) -> None:  # fmt: skip
        specs = printing.specs
        folder = specs.folder(printing.run_id, attempt, i)
        prefix = line_prefix(printing.template, printing.role, self.ranks[i], i)
        output = Output(specs, folder, i, prefix, dict(printing.filters))
        error_file = str(folder / "error.json")
        environment = {**environment, "TORCHELASTIC_ERROR_FILE": error_file}
        self._error_files.append(error_file)
        self._outputs.append(output)
        if callable(command.entry):
            process: Any = _Called(command, environment, output.given)
        else:
            process = subprocess.Popen(
                [command.entry, *(_filled(each, i) for each in command.arguments)],
                env=os.environ | environment,
                stdout=output.given[Std.OUT],
                stderr=output.given[Std.ERR],
                preexec_fn=_with_parent,
            )
        output.started()
        self.processes.append(process)

    def poll(self) -> list[int | None]:
        """The exit codes of those that have ended."""
        return [process.poll() for process in self.processes]

    def hang(self, patience: float) -> bool:
        """True if a worker is still there that long after an error has ended its main thread."""
        now = time.monotonic()
        for i, process in enumerate(self.processes):
            if os.path.exists(self._error_files[i] + RAISED) and process.poll() is None:
                if now - self._raised.setdefault(i, now) > patience:
                    return True
        return False

    def stop(self, number: int, patience: float) -> None:
        """Ends those that run: by a signal, and after a while by SIGKILL."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)
        end = time.monotonic() + patience
        while None in self.poll() and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        while None in self.poll():
            time.sleep(0.01)

    def finish(self) -> None:
        """Has everything printed that they have said."""
        for output in self._outputs:
            output.finish()

    def failures(self, codes: Sequence[int | None]) -> dict[int, ProcessFailure]:
        """Those that failed, by rank: with these codes, or because they wrote an error."""
        found = {}
        for i, process in enumerate(self.processes):
            if codes[i] or os.path.exists(self._error_files[i]):
                code: Any = codes[i] if codes[i] is not None else process.poll()
                found[self.ranks[i]] = ProcessFailure(i, process.pid, code, self._error_files[i])
        return found

    def results(self) -> dict[int, Any]:
        """What functions have returned, by rank."""
        return {
            rank: process.result() if isinstance(process, _Called) else None
            for rank, process in zip(self.ranks, self.processes, strict=True)
        }
