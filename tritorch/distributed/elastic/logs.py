"""What workers print: where it goes, and who sees it."""

from __future__ import annotations

import enum
import os
import shutil
import string
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["DefaultLogsSpecs", "LogsSpecs", "Output", "Std"]


class Std(enum.IntFlag):
    """Streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, text: str) -> Any:
        """ "3" for all workers, or "0:1,1:3" for some."""
        if text.isdigit():
            return cls(int(text))
        try:
            pairs = (pair.split(":") for pair in text.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        except ValueError:
            raise ValueError(
                f'{text!r} names no streams: write 0 to 3, or "0:1,1:3" for some local ranks'
            ) from None


def _of(spec: Any, rank: int) -> Std:
    return spec.get(rank, Std.NONE) if isinstance(spec, dict) else Std(spec)


class LogsSpecs:
    """Where output goes: into files (redirects), into files and onto the console (tee), and of
    which local ranks the console has any."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Any = Std.NONE,
        tee: Any = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self.root_log_dir = log_dir
        self.redirects, self.tee, self.local_ranks_filter = redirects, tee, local_ranks_filter
        self._run: Path | None = None

    def folder(self, run_id: str, attempt: int, rank: int) -> Path:
        """The folder of a worker's files; makes it."""
        if self._run is None:
            root = self.root_log_dir
            if root is not None:
                os.makedirs(root, exist_ok=True)
            name = "".join(c if c.isalnum() or c in "-." else "_" for c in run_id)
            self._run = Path(tempfile.mkdtemp(prefix=f"{name}_", dir=root))
        path = self._run / f"attempt_{attempt}" / str(rank)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def streams(self, rank: int) -> dict[Std, tuple[bool, bool]]:
        """For each stream of a worker: (whether a file has it, whether the console has it)."""
        redirected, both = _of(self.redirects, rank), _of(self.tee, rank)
        seen = self.local_ranks_filter is None or rank in self.local_ranks_filter
        return {
            each: (
                bool((redirected | both) & each),
                seen and bool(both & each or not redirected & each),
            )
            for each in (Std.OUT, Std.ERR)
        }

    def tidy(self) -> None:
        """All has ended well: what nobody asked for goes."""
        if self._run is not None and self.root_log_dir is None:
            wanted = (self.redirects, self.tee)
            if not any(any(each.values()) if isinstance(each, dict) else each for each in wanted):
                shutil.rmtree(self._run, ignore_errors=True)


class DefaultLogsSpecs(LogsSpecs):
    """Files at {log_dir}/{run}/attempt_{n}/{local rank}/stdout.log and stderr.log."""


class Output:
    """The streams of one worker: what to give to subprocess, and threads that pass lines on."""

    def __init__(
        self,
        specs: LogsSpecs,
        folder: Path,
        rank: int,
        prefix: str,
        filters: dict[Std, Iterable[str]],
    ) -> None:
        self._threads: list[threading.Thread] = []
        self._theirs: list[int] = []
        self.given: dict[Std, int | None] = {}
        streams = specs.streams(rank)
        for std, name, console in (
            (Std.OUT, "stdout", sys.stdout), (Std.ERR, "stderr", sys.stderr),
        ):  # fmt: skip
            kept, shown = streams[std]
            chosen = tuple(filters.get(std, ()))
            if not kept and shown and not chosen:
                self.given[std] = None  # the launcher's own
                continue
            path = folder / f"{name}.log" if kept else Path(os.devnull)
            if not shown and not chosen:
                self._theirs.append(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644))
                self.given[std] = self._theirs[-1]
                continue
            ours, theirs = os.pipe()
            self._theirs.append(theirs)
            self.given[std] = theirs
            extra = open(folder / f"filtered_{name}.log", "wb") if chosen else None  # noqa: SIM115
            file = open(path, "wb")  # noqa: SIM115
            thread = threading.Thread(
                target=_pass_on,
                args=(ours, file, console if shown else None, prefix, extra, chosen),
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def started(self) -> None:
        """The worker has its ends of the pipes."""
        for each in self._theirs:
            os.close(each)
        self._theirs = []

    def finish(self) -> None:
        """What was printed is passed on; what a child of the worker still prints may not be."""
        for thread in self._threads:
            thread.join(5)


def _pass_on(
    source: int, file: BinaryIO, console: Any, prefix: str, extra: Any, chosen: tuple[str, ...]
) -> None:
    with open(source, "rb") as lines, file:
        for line in lines:
            file.write(line)
            file.flush()
            text = line.decode(errors="replace")
            if console is not None:
                console.write(f"{prefix}{text}")
                console.flush()
            if extra is not None and any(each in text for each in chosen):
                extra.write(line)
                extra.flush()


def line_prefix(template: str | None, role: str, rank: int, local_rank: int) -> str:
    """What stands before a worker's lines on the console."""
    return string.Template(template or "[${role_name}${local_rank}]:").safe_substitute(
        role_name=role, rank=rank, local_rank=local_rank
    )
