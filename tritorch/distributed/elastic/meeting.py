"""How the launchers of a job, one on each host, agree on who is who.

# Note [Rounds]
A job has rounds: one, and one more after each failure and whenever a host comes that there is room
for.  In a round each launcher takes a ticket from the store; once enough have come (all that may,
or those that must and nobody else for a while), one of them closes the round, and those with
tickets below that number are its hosts.  A round has one outcome, which whoever is first writes:
"failed", "grows" or nothing, if all workers end well.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import time
import uuid
from datetime import timedelta
from typing import Any

from tritorch.distributed.constants import DistNetworkError
from tritorch.distributed.stores import PrefixStore, Store, TCPStore

__all__ = ["Meeting", "Place", "RendezvousTimeoutError", "open_store"]

_POLL = 0.1


class RendezvousError(Exception):
    """Launchers did not find each other."""


class RendezvousTimeoutError(RendezvousError):
    """Too few hosts came in time."""


@dataclasses.dataclass
class Place:
    """A host's place in a round."""

    round: int
    host: int  # its number among the hosts
    hosts: int
    first: int  # the rank of its first worker
    world_size: int


def _is_here(host: str) -> bool:
    """Whether a name or an address is this machine's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        addresses = {each[4][0] for each in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    for address in addresses:
        kind = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
                return True
            except OSError:
                continue
    return False


def open_store(endpoint: str, serves: bool | None, limit: float) -> tuple[TCPStore, bool]:
    """The store at "host:port", and whether it is this launcher that serves it.  serves: whether
    it shall; None: if the host is this one and no other launcher of it does."""
    host, _, port = endpoint.rpartition(":") if ":" in endpoint else (endpoint, "", "29400")
    host = host.strip("[]") or "localhost"
    wait = timedelta(seconds=limit)
    if serves or (serves is None and _is_here(host)):
        try:
            store = TCPStore(host, int(port), is_master=True, timeout=wait, wait_for_workers=False)
            return store, True
        except DistNetworkError:
            if serves:
                raise
    return TCPStore(host, int(port), is_master=False, timeout=wait, wait_for_workers=False), False


class Meeting:
    """A launcher's part in the rounds of one job."""

    def __init__(
        self, store: Store, run_id: str, least: int, most: int, number: int | None = None,
        limit: float = 900.0, patience: float = 30.0,
    ) -> None:  # fmt: skip
        self.store = PrefixStore(f"job/{run_id}", store)
        self.least, self.most, self.number = least, most, number
        self.limit, self.patience = limit, patience
        self.place = Place(-1, 0, 0, 0, 0)
        self._said, self._token = 0.0, uuid.uuid4().hex
        self._pulses: dict[int, tuple[int, float]] = {}

    def _key(self, what: str) -> str:
        return f"{self.place.round}/{what}"

    def join(self, workers: int) -> Place:
        """Takes part in the next round that has room."""
        end = time.monotonic() + self.limit
        while True:
            number = self.store.add("round", 0)
            ticket = self.store.add(f"{number}/came", 1) - 1
            said = {"workers": workers, "number": self.number, "host": socket.gethostname()}
            self.store.set(f"{number}/host/{ticket}", json.dumps(said))
            hosts = self._closed(number, end)
            if ticket < hosts:
                return self._placed(number, ticket, hosts)
            self.store.add(f"{number}/waits", 1)
            while self.store.add("round", 0) == number:
                self._check_time(end, f"no place became free in round {number}")
                time.sleep(_POLL)

    def _check_time(self, end: float, what: str) -> None:
        if time.monotonic() > end:
            raise RendezvousTimeoutError(f"after {self.limit:g} s, {what}")

    def _closed(self, number: int, end: float) -> int:
        """The number of hosts of a round, once it is closed."""
        enough = None
        while not self.store.check([f"{number}/closed"]):
            came = self.store.add(f"{number}/came", 0)
            now = time.monotonic()
            if came >= self.least and enough is None:
                enough = now + self.patience
            if came >= self.most or (enough is not None and now >= enough):
                self.store.compare_set(f"{number}/closed", "", str(min(came, self.most)))
                break
            self._check_time(end, f"{came} of {self.least} hosts have come")
            time.sleep(_POLL)
        return int(self.store.get(f"{number}/closed"))

    def _placed(self, number: int, ticket: int, hosts: int) -> Place:
        """Hosts are in the order of their own numbers if all have one, else as they came."""
        said = [json.loads(self.store.get(f"{number}/host/{i}")) for i in range(hosts)]
        numbers = [each["number"] for each in said]
        order = list(range(hosts))
        if None not in numbers:
            if len(set(numbers)) != hosts:
                raise RendezvousError(f"hosts have the same node rank: {dict(enumerate(numbers))}")
            order.sort(key=lambda i: numbers[i])
        host = order.index(ticket)
        counts = [said[i]["workers"] for i in order]
        self.place = Place(number, host, hosts, sum(counts[:host]), sum(counts))
        self._pulses = {}
        self.names = [said[i]["host"] for i in order]
        return self.place

    # While workers run.

    def end_round(self, outcome: dict[str, Any], restarts: int) -> None:
        """Ends the round, if nobody has; a failure is one of the job's restarts."""
        if self.store.compare_set(self._key("ends"), "", self._token) != self._token.encode():
            return
        used = self.store.add("restarts", int(outcome["kind"] == "failed"))
        self.store.set(self._key("outcome"), json.dumps({**outcome, "again": used <= restarts}))

    def outcome(self, wait: float = 0.0) -> dict[str, Any] | None:
        """How the round has ended, if it has."""
        end = time.monotonic() + wait
        while not self.store.check([self._key("outcome")]):
            if time.monotonic() >= end:
                return None
            time.sleep(_POLL)
        found: dict[str, Any] = json.loads(self.store.get(self._key("outcome")))
        return found

    def grows(self) -> bool:
        """Whether hosts wait that there is room for."""
        return self.place.hosts < self.most and self.store.add(self._key("waits"), 0) > 0

    def next_round(self) -> None:
        """The next round may begin."""
        here = str(self.place.round)
        self.store.compare_set("round", here, str(self.place.round + 1))

    def pulse(self, every: float) -> None:
        """Says that this launcher is there, every so many seconds."""
        if time.monotonic() - self._said >= every:
            self._said = time.monotonic()
            self.store.add(self._key(f"pulse/{self.place.host}"), 1)

    def lost(self, limit: float) -> str | None:
        """The name of a host whose launcher has said nothing for so many seconds."""
        now = time.monotonic()
        for host in range(self.place.hosts):
            count = self.store.add(self._key(f"pulse/{host}"), 0)
            before, since = self._pulses.get(host, (-1, now))
            if count != before:
                self._pulses[host] = count, now
            elif now - since > limit and not self.store.check([self._key(f"done/{host}")]):
                return f"{self.names[host]} (host {host})"
        return None

    def done(self) -> None:
        """This host's workers have ended well."""
        self.store.set(self._key(f"done/{self.place.host}"), "1")

    def all_done(self) -> bool:
        """Whether those of all hosts have."""
        return self.store.check([self._key(f"done/{i}") for i in range(self.place.hosts)])

    def leave(self) -> None:
        """This launcher needs the store no more."""
        self.store.set(self._key(f"left/{self.place.host}"), "1")

    def all_left(self) -> bool:
        """Whether no launcher needs it."""
        return self.store.check([self._key(f"left/{i}") for i in range(self.place.hosts)])
