"""What a launcher does on its host: rounds of workers, until they end well or too often badly."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from tritorch.distributed.elastic.meeting import Meeting, Place
from tritorch.distributed.elastic.multiprocessing import SignalException
from tritorch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from tritorch.distributed.elastic.workers import Command, Printing, Workers

__all__ = ["Host", "Settings"]


class Settings:
    """How a launcher looks after its workers; times in seconds."""

    def __init__(self, **given: Any) -> None:
        self.workers = 1
        self.restarts = 0
        self.interval = 0.1
        self.patience = 10.0  # from a signal to SIGKILL
        self.silence = 15.0  # of another launcher, after which its host is lost
        self.leaving = 300.0  # how long the store is served for others
        self.role = "default"
        self.address, self.port = "127.0.0.1", 0
        self.signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
        self.virtual_local_rank = False
        self.serves = True
        vars(self).update(given)


class Host:
    """A launcher: its part in the job's rounds, and the workers that it starts."""

    def __init__(
        self, meeting: Meeting, command: Command, printing: Printing, settings: Settings
    ) -> None:
        self.meeting, self.command, self.printing = meeting, command, printing
        self.settings = settings
        self.workers: Workers | None = None

    def run(self) -> dict[int, Any]:
        """Runs the job; gives what functions have returned, by rank."""
        with _signals(self.settings.signals):
            try:
                while True:
                    place = self.meeting.join(self.settings.workers)
                    attempt = place.round
                    self.workers = Workers(
                        self.command, self._environments(place), self.printing, attempt
                    )
                    outcome = self._watch(self.workers)
                    if outcome is None:
                        self._leave()
                        self.printing.specs.tidy()
                        return self.workers.results()
                    if not outcome["again"]:
                        self._leave()
                        raise self._failed(outcome)
                    self._say(outcome)
                    self.meeting.next_round()
            except BaseException as error:
                number = error.sigval if isinstance(error, SignalException) else signal.SIGTERM
                if self.workers is not None:
                    self.workers.stop(number, self.settings.patience)
                    self.workers.finish()
                if isinstance(error, (SignalException, KeyboardInterrupt)):
                    self._tell_of(error)
                raise

    def _environments(self, place: Place) -> list[dict[str, str]]:
        """What each worker finds in its environment."""
        settings, count = self.settings, self.settings.workers
        common = {
            "GROUP_RANK": place.host, "GROUP_WORLD_SIZE": place.hosts,
            "LOCAL_WORLD_SIZE": count, "WORLD_SIZE": place.world_size,
            "ROLE_NAME": settings.role, "ROLE_WORLD_SIZE": place.world_size,
            "MASTER_ADDR": settings.address, "MASTER_PORT": settings.port,
            "TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RUN_ID": self.printing.run_id,
            "TORCHELASTIC_RESTART_COUNT": place.round,
            "TORCHELASTIC_MAX_RESTARTS": settings.restarts,
        }  # fmt: skip
        if count > 1 and "OMP_NUM_THREADS" not in os.environ:
            common["OMP_NUM_THREADS"] = 1
        found = []
        for i in range(count):
            rank = place.first + i
            own: dict[str, Any] = {"LOCAL_RANK": i, "RANK": rank, "ROLE_RANK": rank}
            if settings.virtual_local_rank:
                devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
                names = devices.split(",") if devices else [str(each) for each in range(count)]
                own |= {"LOCAL_RANK": 0, "CUDA_VISIBLE_DEVICES": names[i]}
            found.append({name: str(value) for name, value in (common | own).items()})
        return found

    def _watch(self, workers: Workers) -> dict[str, Any] | None:
        """Waits for the end of a round; None if all workers of all hosts end well."""
        meeting, settings = self.meeting, self.settings
        looked = 0.0
        said_done = False
        while True:
            codes = workers.poll()
            if any(codes) or workers.hang(settings.patience):
                workers.stop(signal.SIGTERM, settings.patience)
                workers.finish()
                failures = workers.failures(codes)
                meeting.end_round(_failure(failures), settings.restarts)
                return meeting.outcome(wait=30.0)
            if all(code == 0 for code in codes) and not said_done:
                workers.finish()
                meeting.done()
                said_done = True
            if meeting.place.hosts == 1 and said_done:
                return None
            now = time.monotonic()
            if (meeting.place.hosts > 1 or meeting.most > 1) and now - looked > 0.5:
                looked = now
                outcome = self._others()
                if outcome is not None:
                    workers.stop(signal.SIGTERM, settings.patience)
                    workers.finish()
                    return outcome
                if said_done and meeting.all_done():
                    return None
            time.sleep(settings.interval)

    def _others(self) -> dict[str, Any] | None:
        """How the other hosts have ended the round, if they have; looks whether they live."""
        meeting, settings = self.meeting, self.settings
        meeting.pulse(settings.silence / 5)
        if settings.serves or meeting.place.host == 0:
            lost = meeting.lost(settings.silence)
            if lost is not None:
                text = f"the launcher of {lost} has said nothing for {settings.silence:g} s"
                meeting.end_round({"kind": "failed", "why": text, "failures": {}},
                                  settings.restarts)  # fmt: skip
        if meeting.grows():
            meeting.end_round({"kind": "grows", "why": "a host has come", "failures": {}},
                              settings.restarts)  # fmt: skip
        return meeting.outcome()

    def _say(self, outcome: dict[str, Any]) -> None:
        print(f"tritorch launch: {outcome['why']}; all workers start again", file=sys.stderr)

    def _failed(self, outcome: dict[str, Any]) -> BaseException:
        failures = {
            int(rank): ProcessFailure.from_json(data) for rank, data in outcome["failures"].items()
        }
        if not failures:
            return RuntimeError(outcome["why"])
        return ChildFailedError(_name(self.command), failures)

    def _tell_of(self, error: BaseException) -> None:
        """Has the other hosts end, too, and at once."""
        if self.meeting.place.round < 0:
            return
        why = f"the launcher of host {self.meeting.place.host} was ended: {error}"
        with contextlib.suppress(Exception):
            self.meeting.end_round({"kind": "failed", "why": why, "failures": {}}, -1)

    def _leave(self) -> None:
        """Whoever serves the store goes last."""
        meeting = self.meeting
        if meeting.place.hosts == 1:
            return
        meeting.leave()
        end = time.monotonic() + self.settings.leaving
        while self.settings.serves and not meeting.all_left() and time.monotonic() < end:
            if meeting.lost(self.settings.silence) is not None:
                return
            time.sleep(0.1)


def _name(command: Command) -> str:
    if callable(command.entry):
        return getattr(command.entry, "__qualname__", str(command.entry))
    words = [each for each in map(str, command.arguments) if not each.startswith("-")]
    programs = [each for each in words if each != "tritorch.distributed.elastic.program"]
    return programs[0] if programs else command.entry


def _failure(failures: dict[int, ProcessFailure]) -> dict[str, Any]:
    """The outcome of a round whose workers failed on this host."""
    rank, first = ChildFailedError("", failures).get_first_failure()
    text = first.told.strip().rpartition("\n")[2]
    return {
        "kind": "failed",
        "why": f"rank {rank} failed ({text})",
        "failures": {each: failure.to_json() for each, failure in failures.items()},
    }


@contextlib.contextmanager
def _signals(names: str) -> Iterator[None]:
    """In here these signals raise SignalException, if this is the main thread."""

    def told(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        raise SignalException(f"process {os.getpid()} got signal {number} ({name})", number)

    before = {}
    try:
        for name in filter(None, (each.strip() for each in names.split(","))):
            number = getattr(signal, name)
            before[number] = signal.signal(number, told)
    except ValueError:  # not the main thread: signals are somebody else's
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
