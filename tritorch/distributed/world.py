"""The groups of a process: how they are made, looked up and ended."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from datetime import timedelta
from typing import Any

from tritorch.core.device import device as Device
from tritorch.distributed import schedulers
from tritorch.distributed.backend_names import Backend, BackendConfig
from tritorch.distributed.backends.fake import FakeProcessGroup, FakeStore
from tritorch.distributed.backends.gloo import ProcessGroupGloo
from tritorch.distributed.backends.nccl import ProcessGroupNCCL
from tritorch.distributed.backends.threaded import ThreadedProcessGroup
from tritorch.distributed.constants import default_pg_timeout
from tritorch.distributed.process_group import ProcessGroup
from tritorch.distributed.rendezvous import rendezvous
from tritorch.distributed.stores import HashStore, PrefixStore, Store
from tritorch.distributed.where import Watchdog

GroupName = str


class World:
    """The state of torch.distributed: of the process, or of a thread among threaded groups."""

    def __init__(self) -> None:
        self.default_pg: Any = None
        self.pg_map: dict[Any, tuple[str, Store]] = {}
        self.pg_names: dict[Any, str] = {}
        self.pg_group_ranks: dict[Any, dict[int, int]] = {}
        self.pg_backend_config: dict[Any, str] = {}
        self.tags_to_pg: dict[str, list[Any]] = {}
        self.pg_to_tag: dict[Any, str] = {}
        self.pg_coalesce_state: dict[Any, list[Any]] = {}
        self.group_count = 0
        self.watchdog: Watchdog | None = None


class _Worlds(threading.local):
    """The world of each thread, where threaded groups are in use."""

    def __init__(self) -> None:
        self.own = World()


class _CurrentWorld:
    """Attributes of the world that is current in this thread."""

    def __init__(self) -> None:
        object.__setattr__(self, "_shared", World())
        object.__setattr__(self, "_worlds", None)

    def __getattr__(self, name: str) -> Any:
        worlds = self._worlds
        return getattr(self._shared if worlds is None else worlds.own, name)

    def __setattr__(self, name: str, value: Any) -> None:
        worlds = self._worlds
        setattr(self._shared if worlds is None else worlds.own, name, value)


_world: Any = _CurrentWorld()


def install_threaded() -> None:
    """From now on each thread has a world of its own, for the backend "threaded"."""
    object.__setattr__(_world, "_worlds", _Worlds())


def uninstall_threaded() -> None:
    """Takes that back."""
    object.__setattr__(_world, "_worlds", None)


class _WorldMeta(type):
    @property
    def WORLD(cls) -> Any:
        """The group of all processes."""
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, pg: Any) -> None:
        _world.default_pg = pg


class group(metaclass=_WorldMeta):
    """`group.WORLD`: the group of all processes."""


class GroupMember(metaclass=_WorldMeta):
    """`GroupMember.WORLD`, and what a process gets that is no member of a new group."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Whether there is a default group."""
    return _world.default_pg is not None


def _get_default_group() -> Any:
    pg = _world.default_pg
    if pg is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return pg


def _get_default_store() -> Store:
    return _world.pg_map[_get_default_group()][1]


def _check_valid_timeout(timeout: Any) -> None:
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )


def _alone(init_method: str | None, rank: int, world_size: int) -> bool:
    """Whether a process is the only one of its job, and has to find nobody."""
    if init_method not in (None, "env://"):
        return False
    if world_size == 1 and rank in (-1, 0) and not os.environ.get("MASTER_ADDR"):
        return True
    variables = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if (rank, world_size) != (-1, -1) or any(os.environ.get(v) for v in variables):
        return False
    found = schedulers.as_rank()
    return found is None or found.size == 1


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Makes the group of all processes.  One process alone needs no arguments."""
    if _world.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if not world_size > 0:
            raise AssertionError("world_size must be positive if using store")
        if not rank >= 0:
            raise AssertionError("rank must be non-negative if using store")
    timeout = default_pg_timeout if timeout is None else timeout
    _check_valid_timeout(timeout)
    if device_id is not None:
        device_id = Device("cuda", device_id) if isinstance(device_id, int) else Device(device_id)
        if device_id.type != "cpu" and device_id.index is None:
            raise ValueError("Please use a device_id with index.")
    name = Backend("undefined" if backend is None else backend)
    if store is None:
        if name == Backend.FAKE:
            store = FakeStore()
            world_size = 1 if world_size == -1 else world_size
            rank = max(rank, 0)
        elif init_method is None and (world_size, rank) == (-1, -1) and _named(name, Backend.MPI):
            store, rank, world_size = _mpi().meet(timeout)
        elif _alone(init_method, rank, world_size):
            store, rank, world_size = HashStore(), 0, 1
        else:
            store, rank, world_size = next(
                rendezvous(init_method or "env://", rank, world_size, timeout=timeout)
            )
        store.set_timeout(timeout)
        store = PrefixStore("default_pg", store)
    ranks = list(range(world_size))
    pg = _make_group(name, store, rank, ranks, _next_name(), timeout, pg_options, "default_pg")
    pg.bound_device_id = device_id
    _world.default_pg = pg
    if os.environ.get("TORCH_DIST_INIT_BARRIER") == "1":
        pg.barrier().wait()


def _named(name: str, backend: str) -> bool:
    """Whether a group's backend is that one, or that one for a device."""
    return any(each.rpartition(":")[2] == backend for each in name.split(","))


def _mpi() -> Any:
    """The module of the backend mpi, which starts MPI when it is used: nobody else asks for it."""
    from tritorch.distributed.backends import mpi

    return mpi


def _next_name() -> str:
    name = str(_world.group_count)
    _world.group_count += 1
    return name


def _make_backend(
    name: str, store: Store, rank: int, size: int, timeout: timedelta, options: Any, ranks: Any,
    what: str,
) -> Any:  # fmt: skip
    """A backend by its name, for one member.  what: what the members meet for."""
    plugin = Backend._plugins.get(name.upper())
    if plugin is not None:
        if not plugin.extended_api:
            return plugin.creator_fn(store, rank, size, timeout)
        given = DistributedBackendOptions(store, rank, size, timeout, "", ranks)
        return plugin.creator_fn(given, options)
    if name == Backend.GLOO:
        return ProcessGroupGloo(store, rank, size, timeout, ranks=ranks, what=what)
    if name == Backend.NCCL:
        return ProcessGroupNCCL(store, rank, size, timeout, options)
    if name == Backend.MPI:
        return _mpi().ProcessGroupMPI(store, rank, size, timeout, ranks)
    if name == Backend.FAKE:
        return FakeProcessGroup(rank, size)
    if name == Backend.THREADED:
        return ThreadedProcessGroup(store, rank, size, timeout)
    if name in Backend.backend_list:
        raise RuntimeError(
            f"Distributed package doesn't have {name.upper()} built in: there are gloo (also for "
            "tensors of a GPU, through the host), nccl, mpi, threaded and fake"
        )
    raise ValueError(f"Unknown c10d backend type {name.upper()}")


class DistributedBackendOptions:
    """What a program's backend gets under extended_api."""

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, name: str, ranks: list[int]
    ) -> None:
        self.store, self.group_rank, self.group_size = store, rank, size
        self.timeout, self.group_id, self.global_ranks_in_group = timeout, name, ranks


def _make_group(
    backend: str,
    base: Store,
    rank: int,
    ranks: list[int],
    name: str,
    timeout: timedelta,
    options: Any,
    desc: str,
) -> Any:
    """A group of these processes, of which this one has that rank; registers it.  base: the store
    of the world."""
    config = BackendConfig(backend)
    store = PrefixStore(name, base)
    pg = ProcessGroup(store, rank, len(ranks))
    made: dict[str, Any] = {}
    what = "init_process_group" if name == "0" else f"new_group (group {name!r})"
    for device, each in config.get_device_backend_map().items():
        if each not in made:
            inner = PrefixStore(each, store)
            backend_made = _make_backend(
                each, inner, rank, len(ranks), timeout, options, ranks, what
            )
            if isinstance(backend_made, ProcessGroup):  # a program's own, which is the group
                pg = backend_made
                made[each] = None
                break
            made[each] = backend_made
            _watch(backend_made, base, name, ranks)
        pg._register_backend(
            device, Backend.backend_type_map.get(each, ProcessGroup.BackendType.CUSTOM), made[each]
        )
    if type(pg) is ProcessGroup:
        kind = Backend.backend_type_map.get(backend, ProcessGroup.BackendType.UNDEFINED)
        pg._set_default_backend(kind)
    for attribute, value in (("_name", name), ("_desc", desc or "undefined")):
        setattr(pg, attribute, value)
    _world.pg_map[pg] = (backend, base if name == "0" else store)
    _world.pg_names[pg] = name
    _world.pg_group_ranks[pg] = {each: i for i, each in enumerate(ranks)}
    _world.pg_backend_config[pg] = str(config)
    tag = f"ptd:{name}"
    _world.tags_to_pg.setdefault("", []).append(pg)
    _world.tags_to_pg.setdefault(tag, []).append(pg)
    _world.pg_to_tag[pg] = tag
    return pg


def _watch(backend: Any, base: Store, name: str, ranks: list[int]) -> None:
    """Has the failures of a backend's group say who is where."""
    ring = getattr(backend, "ring", None)
    if ring is None:
        return
    ring.group, ring.ranks = name, ranks
    if ring.store is None:
        return
    ring.store = base
    if _world.watchdog is None:
        _world.watchdog = Watchdog(base)
    _world.watchdog.watch(ring)


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes.  All processes call it, also those that are no members (they get
    GroupMember.NON_GROUP_MEMBER), unless use_local_synchronization is set."""
    default = _get_default_group()
    name, base = _world.pg_map[default]
    rank, size = default.rank(), default.size()
    timeout = default_pg_timeout if timeout is None else timeout
    _check_valid_timeout(timeout)
    if use_local_synchronization and ranks is not None and rank not in ranks:
        return None
    if ranks is None:
        members = list(range(size))
    else:
        members = sorted(ranks) if sort_ranks else list(ranks)
        _check_ranks(members, size)
    if use_local_synchronization:
        text = "_".join(map(str, [*members, len(_world.pg_names)]))
        group_name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    else:
        group_name = _next_name()
    if rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    return _make_group(
        Backend(backend or name), base, members.index(rank), members, group_name, timeout,
        pg_options, group_desc or "undefined",
    )  # fmt: skip


def _check_ranks(ranks: list[int], size: int) -> None:
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    if len(ranks) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    for rank in ranks:
        if rank < 0 or rank >= size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )


def destroy_process_group(group: Any = None) -> None:
    """Ends a group; without one, or for the default one, all."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    pg = _world.default_pg if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    if pg is not _world.default_pg:
        pg.shutdown()
        _forget(pg)
        return
    if _world.watchdog is not None:
        _world.watchdog.stop()
        _world.watchdog = None
    for each in sorted(_world.pg_names, key=lambda each: _world.pg_names[each], reverse=True):
        each.shutdown()
        _forget(each)
    _world.default_pg = None
    _world.group_count = 0


def _forget(pg: Any) -> None:
    for table in (
        _world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config,
    ):  # fmt: skip
        table.pop(pg, None)
    tag = _world.pg_to_tag.pop(pg, None)
    for name in ("", tag):
        if name is not None and pg in _world.tags_to_pg.get(name, ()):
            _world.tags_to_pg[name].remove(pg)
    if _world.pg_coalesce_state.pop(pg, None):
        warnings.warn(
            "Some coalesced collectives haven't been launched when ProcessGroup is destroyed. "
            "They will be cleaned.",
            stacklevel=3,
        )


def _abort_process_group(group: Any = None) -> None:
    """Ends what runs in a group, here and at the other members, and the group."""
    pg = _get_default_group() if group is None else group
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified or has been destroyed.")
    for each in list(_world.pg_names) if pg is _world.default_pg else [pg]:
        each.abort()
    destroy_process_group(group)


group.__module__ = GroupMember.__module__ = "tritorch.distributed.distributed_c10d"
