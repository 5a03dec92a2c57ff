"""Stores: keys and values that all processes of a job see.

A store of ours has one native call (`_C.distributed.StoreEngine`): an operation with keys, values
and a number.  The methods here are PyTorch's; `PrefixStore`, and stores that programs derive, are
made of methods.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tritorch import _C
from tritorch.distributed import exits
from tritorch.distributed.constants import (
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
    milliseconds,
)

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_OPERATIONS = _C.distributed.store_operations
_DONE, _TIMED_OUT, _EMPTY, _REFUSED = range(4)
_DEFAULT_TIMEOUT = timedelta(seconds=300)
_FAILED = b"\0failed: "  # before the text of a meeting that failed
_ABSENT = b"\0absent"  # a value that no key has: `compare_set` gives it back for absent keys

exits.install()


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


class Store:
    """What all stores have.  `get` and `wait` wait for keys, as long as the timeout says."""

    _engine: Any = None
    _timeout = _DEFAULT_TIMEOUT

    def _call(
        self,
        operation: str,
        keys: Sequence[str | bytes] = (),
        values: Sequence[str | bytes] = (),
        number: int = 0,
        timeout: timedelta | None = None,
    ) -> tuple[int, list[bytes]]:
        if self._engine is None:
            raise NotImplementedError(f"{type(self).__name__} has no {operation}")
        limit = self._timeout if timeout is None else timeout
        status, found, data = self._engine.call(
            _OPERATIONS[operation],
            [_bytes(key) for key in keys],
            [_bytes(value) for value in values],
            number,
            milliseconds(limit),
        )
        if status == _DONE:
            return found, data
        if status == _EMPTY:
            raise QueueEmptyError(f"queue is empty: {_names(keys)}")
        if status == _TIMED_OUT:
            raise DistStoreError(
                f"wait timeout after {milliseconds(limit)}ms, keys: {_names(keys)}"
            )
        raise DistStoreError(data[0].decode() if data else f"the store refuses {operation}")

    def set(self, key: str, value: str | bytes) -> None:
        """Writes a value."""
        self._call("set", [key], [value])

    def get(self, key: str) -> bytes:
        """A key's value, as soon as there is one."""
        return self._call("get", [key])[1][0]

    def add(self, key: str, amount: int) -> int:
        """Adds to the number that a key has (0 at first), and gives the sum."""
        return self._call("add", [key], number=amount)[0]

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return bool(self._call("check", keys)[0])

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Writes the desired value if the key has the expected one, or is absent and "" is
        expected; gives what the key has then."""
        return self._call("compare_set", [key], [expected_value, desired_value])[1][0]

    def delete_key(self, key: str) -> bool:
        """Whether there was such a key; there is none any more."""
        return bool(self._call("delete_key", [key])[0])

    def num_keys(self) -> int:
        """The number of keys."""
        return self._call("num_keys")[0]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are there."""
        self._call("wait", keys, timeout=timeout)

    def append(self, key: str, value: str | bytes) -> None:
        """Puts a value behind the one that is there."""
        self._call("append", [key], [value])

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of several keys, as soon as all are there."""
        return self._call("multi_get", keys)[1]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Writes several values at once."""
        if len(keys) != len(values):
            raise ValueError("multi_set keys and values vectors must be of same size")
        self._call("multi_set", keys, values)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Puts a value at the end of a queue."""
        self._call("queue_push", [key], [value])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first value of a queue; if it is empty, waits for one or raises."""
        return self._call("queue_pop", [key], number=int(block))[1][0]

    def queue_len(self, key: str) -> int:
        """The number of values in a queue."""
        return self._call("queue_len", [key])[0]

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key.decode() for key in self._call("list_keys")[1]]

    def has_extended_api(self) -> bool:
        """Whether there are append, multi_get and multi_set."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long the store waits."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long the store waits."""
        return self._timeout

    def clone(self) -> Store:
        """A store on the same keys."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made


def _names(keys: Sequence[str | bytes]) -> str:
    return ", ".join(key if isinstance(key, str) else key.decode(errors="replace") for key in keys)


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        self._engine = _C.distributed.HashEngine()


class FileStore(Store):
    """A store in a file that all processes reach."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._engine = _C.distributed.FileEngine(file_name)
        self._path = file_name
        self._engine.call(_OPERATIONS["num_keys"], [], [], 0, 0)  # a wrong path fails here

    @property
    def path(self) -> str:
        """The file."""
        return self._path


# By address, for processes with several stores at one port (multi_tenant).
_servers: weakref.WeakValueDictionary[tuple[str, int], Any] = weakref.WeakValueDictionary()


class _Server:
    def __init__(self, host: str, port: int, secret: bytes, listener: int) -> None:
        self.native = _C.distributed.StoreServer(host, port, secret, listener)

    def __del__(self) -> None:
        if hasattr(self, "native"):
            self.native.stop()


def ranks_named(ranks: Sequence[int]) -> str:
    """ "rank 2", or "ranks 2, 3"."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def gathered(store: Store, key: str, ranks: Sequence[int], what: str) -> list[bytes]:
    """The values under a key of all members of a group, in their order there.

    what: what they meet for.  An error names those who have not come, by their ranks in the world.
    Whoever waits too long writes it under their keys for a moment, so that all who wait have it:
    the store may end with the first of them."""
    keys = [f"{key}{i}" for i in range(len(ranks))]
    begun = time.monotonic()
    try:
        values = store.multi_get(keys)
    except DistStoreError as error:
        present = [store.compare_set(each, _ABSENT, _ABSENT) for each in keys]  # reads, never waits
        _raise_failed(present)
        absent = {each: rank for each, rank, v in zip(keys, ranks, present) if v == _ABSENT}
        if not absent:
            raise
        text = (
            f"{what}: {ranks_named(list(absent.values()))} of {len(ranks)} did not come within "
            f"{time.monotonic() - begun:.0f} s"
        )
        for each in absent:
            store.compare_set(each, "", _FAILED + text.encode())
        for each in absent:
            store.delete_key(each)
        raise DistStoreError(f"{text} ({error})") from None
    _raise_failed(values)
    return values


def _raise_failed(values: Sequence[bytes]) -> None:
    """Raises the error that another member has left in place of a value."""
    for value in values:
        if value.startswith(_FAILED):
            raise DistStoreError(value.removeprefix(_FAILED).decode())


def job_secret() -> bytes:
    """What the processes of a job know and others do not; nothing by default."""
    return os.environ.get("TRITORCH_JOB_SECRET", "").encode()


class TCPStore(Store):
    """A store that one process serves to all.

    The server listens at the interface that `host_name` names, and at no other;
    TRITORCH_STORE_INTERFACE names another address, for hosts behind an address translation.
    """

    served_by = ""  # who serves it, in errors

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        self._timeout = timeout
        self._host, self._port, self._libuv = host_name, port, use_libuv
        self._server = None
        secret = job_secret()
        where = host_name
        if is_master:
            self._server = self._serve(secret, multi_tenant, master_listen_fd)
            where, self._port = self._server.native.address
            if where in ("0.0.0.0", "::"):  # a socket that the program gave
                where = "127.0.0.1"
        self._engine = _C.distributed.ClientEngine(where, self._port, secret, milliseconds(timeout))
        if wait_for_workers and world_size is not None and world_size > 0:
            self._meet(world_size)

    def _serve(self, secret: bytes, shared: bool, listener: int | None) -> _Server:
        place = os.environ.get("TRITORCH_STORE_INTERFACE", self._host)
        if shared and (server := _servers.get((place, self._port))) is not None:
            return server
        if not 0 <= self._port < 2**16:
            raise ValueError(f"port must have value from 0 to 65535 but was {self._port}.")
        try:
            server = _Server(place, self._port, secret, -1 if listener is None else listener)
        except DistNetworkError as error:
            raise DistNetworkError(
                f"{error}. A store listens at one interface only; TRITORCH_STORE_INTERFACE says "
                "which, if the name that others know is not this host's own."
            ) from None
        _servers[(place, server.native.address[1])] = server
        return server

    def _meet(self, world_size: int) -> None:
        """Returns when all have come."""
        if self.add("init/", 1) >= world_size:
            self.set("init/done", "1")
        try:
            self._call("wait", ["init/done"])
        except DistStoreError as error:
            came = self.add("init/", 0)
            raise DistStoreError(f"{error}: {came} of {world_size} processes came") from None

    def meet_by_rank(self, rank: int, world_size: int) -> None:
        """Returns when all ranks of a job have come.  Whoever waits too long says who is missing,
        to all others too: the store ends with its process."""
        self.served_by = "rank 0"
        if self.check(["init/done"]) and self.get("init/done"):
            self.delete_key("init/done")  # of a meeting that failed
        self.set(f"init/rank{rank}", "1")
        if self.add("init/", 1) >= world_size:
            self.set("init/done", "")
        try:
            said = self.get("init/done")
        except DistStoreError:
            missing = [r for r in range(world_size) if not self.check([f"init/rank{r}"])]
            said = self.compare_set(
                "init/done", "", f"{ranks_named(missing)} of {world_size} did not come to "
                f"init_process_group within {self._timeout.total_seconds():.0f} s",
            )  # fmt: skip
        if said:
            raise DistStoreError(said.decode())

    def _call(self, *request: Any, **options: Any) -> tuple[int, list[bytes]]:
        try:
            return super()._call(*request, **options)
        except DistNetworkError as error:
            if not self.served_by:
                raise
            raise DistNetworkError(
                f"{error}. It is served by {self.served_by}, whose process is gone, stopped or out "
                "of reach."
            ) from None

    @property
    def host(self) -> str:
        """The name of the server's host."""
        return self._host

    @property
    def port(self) -> int:
        """The server's port."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """What use_libuv said: there is one event loop, and it is ours."""
        return self._libuv

    def __repr__(self) -> str:
        role = "server" if self._server else "client"
        return f"TCPStore({self._host}:{self._port}, {role})"


class PrefixStore(Store):
    """A store whose keys lie in another one, with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    @property
    def underlying_store(self) -> Store:
        """The store in which the keys lie."""
        return self._store

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._key(key), amount)

    def check(self, keys: list[str]) -> bool:
        return self._store.check([self._key(key) for key in keys])

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        return self._store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        prefixed = [self._key(key) for key in keys]
        if timeout is None:
            self._store.wait(prefixed)
        else:
            self._store.wait(prefixed, timeout)

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._key(key), value)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return self._store.multi_get([self._key(key) for key in keys])

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        self._store.multi_set([self._key(key) for key in keys], values)

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key(key))

    def list_keys(self) -> list[str]:
        start = self._key("")
        keys = self._store.list_keys()
        return [key.removeprefix(start) for key in keys if key.startswith(start)]

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def clone(self) -> Store:
        return PrefixStore(self._prefix, self._store.clone())
