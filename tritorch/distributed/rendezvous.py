"""How the processes of a job find each other: a URL says where the store is.

env:// reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; tcp://host:port and file:///path have
rank and world_size as queries or arguments.  A handler is a generator of (store, rank, world_size).
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

from tritorch.distributed import schedulers
from tritorch.distributed.constants import default_pg_timeout
from tritorch.distributed.stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = tuple[Store, int, int]

_handlers: dict[str, Callable[..., Iterator[Meeting]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Meeting]]) -> None:
    """Says who handles the URLs of a scheme."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Meeting]:
    """The meetings at a URL; the first is what a job needs."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url!r}")
    if not isinstance(rank, numbers.Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, numbers.Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    return _meet(url, int(rank), int(world_size), **kwargs)


def _meet(url: str, rank: int, world_size: int | None, **kwargs: Any) -> Iterator[Meeting]:
    parts = urlparse(url)
    given: dict[str, int] = {}
    if world_size is None:
        world_size = -1
        if parts.scheme == "env":
            rank = int(os.environ.get("RANK", rank))
            world_size = int(os.environ.get("WORLD_SIZE", world_size))
        given["world_size"] = world_size
    if rank != -1:
        given["rank"] = rank
    if world_size != -1:
        given["world_size"] = world_size
    if given and _query(parts).keys() & {"rank", "world_size"}:
        raise AssertionError(
            f"The url: {url} has node-specific arguments(rank, world_size) already."
        )
    if given:
        added = "&".join(f"{name}={value}" for name, value in given.items())
        query = f"{parts.query}&{added}" if parts.query else added
        url = parts._replace(query=query).geturl()
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](url, **kwargs)


def _create_store_from_options(backend_options: Any, rank: int) -> Store:
    store, _, _ = next(_meet(backend_options.init_method, rank, None))
    return store


def _query(parts: Any) -> dict[str, str]:
    return dict(parse_qsl(parts.query))


def _error(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _members(parts: Any) -> tuple[int, int]:
    query = _query(parts)
    if "rank" not in query:
        raise _error(parts.scheme, "rank parameter missing")
    if "world_size" not in query:
        raise _error(parts.scheme, "world size parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _no_more(scheme: str, how: str) -> RuntimeError:
    return RuntimeError(f"Unable to perform {how} using {scheme}:// method")


def _file(url: str, **kwargs: Any) -> Iterator[Meeting]:
    parts = urlparse(url)
    if not parts.path:
        raise _error("file", "path missing")
    rank, world_size = _members(parts)
    yield FileStore(parts.path, world_size), rank, world_size
    raise _no_more("file", "rerendezvous")


def _store_at(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    # A launcher may serve the store itself.
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        host, port, world_size, is_master=rank == 0 and not served, timeout=timeout,
        multi_tenant=not served, wait_for_workers=False,
    )  # fmt: skip
    if not served:
        store.meet_by_rank(rank, world_size)
        return store
    store.served_by = "the launcher"
    # It outlives a failure of the workers, who start again: each attempt has keys of its own.
    return PrefixStore(f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)


def _tcp(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Iterator[Meeting]:
    parts = urlparse(url)
    if parts.port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = _members(parts)
    assert parts.hostname is not None, "hostname cannot be None"
    yield _store_at(parts.hostname, parts.port, rank, world_size, timeout), rank, world_size
    raise _no_more("tcp", "re-rendezvous")


def _env(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Iterator[Meeting]:
    query = _query(urlparse(url))
    found = None if os.environ.get("RANK") else schedulers.as_rank()
    said: dict[str, str] = {}
    if found is not None:
        os.environ.setdefault("LOCAL_RANK", str(found.local_rank))
        said = {"RANK": str(found.rank), "WORLD_SIZE": str(found.size), "MASTER_ADDR": found.host,
                "MASTER_PORT": str(found.port)}  # fmt: skip

    def needed(name: str) -> str:
        value = os.environ.get(name) or said.get(name)
        if not value:
            by = f" ({found.scheduler} does not say it)" if found is not None else ""
            raise _error("env", f"environment variable {name} expected, but not set{by}")
        return value

    rank = int(query["rank"]) if "rank" in query else int(needed("RANK"))
    size = int(query["world_size"]) if "world_size" in query else int(needed("WORLD_SIZE"))
    host, port = needed("MASTER_ADDR"), int(needed("MASTER_PORT"))
    yield _store_at(host, port, rank, size, timeout), rank, size
    raise _no_more("env", "re-rendezvous")


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
