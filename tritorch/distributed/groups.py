"""What is asked of groups: ranks, sizes, backends; and groups of groups."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from typing import Any

from tritorch import cuda
from tritorch.core.device import device as Device
from tritorch.distributed.backend_names import Backend
from tritorch.distributed.world import (
    GroupMember,
    _get_default_group,
    _world,
    new_group,
)


def _rank_not_in_group(group: Any) -> bool:
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _warn_not_in_group(op_name: str) -> None:
    rank = -1 if _world.default_pg is None else _world.default_pg.rank()
    warnings.warn(
        f"Running {op_name} on global rank {rank} which does not belong to the given group.",
        stacklevel=3,
    )


def _group_or_default_group(group: Any = None) -> Any:
    return _get_default_group() if group is None else group


def get_rank(group: Any = None) -> int:
    """This process's number in a group; -1 if it is no member."""
    if _rank_not_in_group(group):
        return -1
    default = _get_default_group()
    if group is None or group is default:
        return int(default.rank())
    return get_group_rank(group, default.rank())


def get_world_size(group: Any = None) -> int:
    """The number of members of a group; -1 if this process is none."""
    if _rank_not_in_group(group):
        return -1
    return int(_group_or_default_group(group).size())


_get_group_size = get_world_size


def _ranks_of(group: Any) -> dict[int, int]:
    if group not in _world.pg_group_ranks:
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            "torch.distributed.new_group API"
        )
    return _world.pg_group_ranks[group]


def get_group_rank(group: Any, global_rank: int) -> int:
    """A process's number in a group, by its number among all."""
    if group is _world.default_pg:
        return global_rank
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group: Any, group_rank: int) -> int:
    """A process's number among all, by its number in a group."""
    if group is _world.default_pg:
        return group_rank
    for rank, inner in _ranks_of(group).items():
        if inner == group_rank:
            return rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def get_process_group_ranks(group: Any) -> list[int]:
    """The numbers of a group's members among all, in the order of the group."""
    return list(_world.pg_group_ranks[_group_or_default_group(group)])


def _canonicalize_group_rank(
    group: Any, global_rank: int | None = None, group_rank: int | None = None,
    return_global: bool = False,
) -> int:  # fmt: skip
    """A number in the group of a process that is given by one of its two numbers."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else get_group_rank(group, global_rank)


def get_backend_config(group: Any = None) -> str:
    """The backends of a group by device, as "cpu:gloo,cuda:gloo"."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return str(_world.pg_backend_config.get(pg))


def get_backend(group: Any = None) -> Any:
    """The name of a group's backend."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg) or pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    return Backend(_world.pg_map[pg][0])


def get_pg_count() -> int:
    """The number of groups that were made."""
    return int(_world.group_count)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its host, which its launcher has said in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )


def _get_process_group_name(pg: Any) -> str:
    return _world.pg_names.get(pg, "None")


def _get_process_group_store(pg: Any) -> Any:
    return _world.pg_map[pg][1]


def _get_group_tag(pg: Any) -> str:
    tag = _world.pg_to_tag[pg]
    return str(tag).removeprefix("user:")


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Sets how long a group's collectives may last."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    pg.set_timeout(timeout)


def _resolve_process_group(name: str) -> Any:
    """The group of a name."""
    for pg, known in _world.pg_names.items():
        if known == name:
            return pg
    raise ValueError(f"Could not resolve the process group registered under the name {name}")


def _get_object_coll_device(group: Any = None) -> str:
    """The type of device that objects pass through as bytes."""
    kinds = [device.type for device in _group_or_default_group(group)._device_types]
    return "cpu" if "cpu" in kinds or not kinds else kinds[0]


def _get_pg_default_device(group: Any = None) -> Any:
    return Device(_get_object_coll_device(group))


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """Cuts a group into groups of one size: this process's, and all.  The default size is the
    number of GPUs of the host."""
    if group_size is None:
        if not cuda.is_available():
            raise ValueError(
                "Default group size only takes effect when CUDA is available."
                "If your subgroup using a backend that does not depend on CUDA,"
                "please pass in 'group_size' correctly."
            )
        group_size = cuda.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    world_size = get_world_size(group)
    if world_size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({world_size})"
        )
    if world_size % group_size != 0:
        raise ValueError(f"The world size ({world_size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """Groups of these ranks, which do not overlap: this process's, and all."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    made: list[Any] = []
    seen: dict[int, list[int]] = {}
    mine, rank = None, get_rank()
    for ranks in ranks_per_subgroup_list:
        subgroup = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(subgroup)
        for each in ranks:
            if each in seen:
                raise ValueError(
                    f"Rank {each} has appeared in both subgroup {seen[each]} and {ranks}"
                )
            seen[each] = ranks
        if rank in ranks:
            mine = subgroup
    return mine, made


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """The part of a group that this process is in: split_ranks has numbers in the group.  None if
    it is in no part.  Only the members of the group call it."""
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = _group_or_default_group(parent_pg)
    if parent not in _world.pg_group_ranks:
        raise ValueError(f"Group {parent} is not registered")
    members = get_process_group_ranks(parent)
    for part in split_ranks:
        if not part:
            raise ValueError("the split group cannot be empty")
        if len(part) > len(members):
            raise ValueError(
                "the split group's size should be less or equal to the world_size set by "
                "init_process_group"
            )
        if len(set(part)) != len(part):
            raise ValueError("the split group cannot have duplicate ranks")
    color = next((i for i, part in enumerate(split_ranks) if parent.rank() in part), -1)
    mine = sorted(split_ranks[color]) if color >= 0 else []
    made = None
    if mine:
        made = new_group(
            [members[i] for i in mine], timeout, backend or get_backend(parent), pg_options,
            use_local_synchronization=True, group_desc=group_desc, sort_ranks=False,
        )  # fmt: skip
    for device, each in parent._backends.items():
        if getattr(each, "supports_splitting", False):
            each.split(None if made is None else made._backends.get(device), color, parent.rank())
    return made
