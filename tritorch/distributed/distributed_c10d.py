"""torch.distributed.distributed_c10d: the names under which programs look here for what the files
beside this one define."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tritorch.distributed.backend_names import (
    Backend,
    BackendConfig,
    get_default_backend_for_device,
    is_backend_available,
)
from tritorch.distributed.backends import nccl
from tritorch.distributed.backends.gloo import ProcessGroupGloo
from tritorch.distributed.checks import (
    _check_single_tensor as _check_single_tensor,
    _check_tensor_list as _check_tensor_list,
    _ensure_all_tensors_same_dtype as _ensure_all_tensors_same_dtype,
    supports_complex,
)
from tritorch.distributed.coalescing import (
    _coalescing_manager as _coalescing_manager,
    _CoalescingManager as _CoalescingManager,
    _IllegalWork as _IllegalWork,
)
from tritorch.distributed.collectives import (
    _all_gather_base as _all_gather_base,
    _reduce_scatter_base as _reduce_scatter_base,
    _validate_output_list_for_rank as _validate_output_list_for_rank,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from tritorch.distributed.constants import (
    DebugLevel,
    DistStoreError as DistStoreError,
    default_pg_nccl_timeout as default_pg_nccl_timeout,
    default_pg_timeout,
    get_debug_level,
)
from tritorch.distributed.groups import (
    _canonicalize_group_rank as _canonicalize_group_rank,
    _get_group_size as _get_group_size,
    _get_group_tag as _get_group_tag,
    _get_object_coll_device as _get_object_coll_device,
    _get_pg_default_device as _get_pg_default_device,
    _get_process_group_name as _get_process_group_name,
    _get_process_group_store as _get_process_group_store,
    _group_or_default_group as _group_or_default_group,
    _rank_not_in_group as _rank_not_in_group,
    _resolve_process_group as _resolve_process_group,
    _set_pg_timeout as _set_pg_timeout,
    _warn_not_in_group as _warn_not_in_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from tritorch.distributed.messages import (
    P2POp,
    batch_isend_irecv,
    irecv,
    isend,
    recv,
    send,
)
from tritorch.distributed.objects import (
    _object_to_tensor as _object_to_tensor,
    _tensor_to_object as _tensor_to_object,
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from tritorch.distributed.process_group import ProcessGroup
from tritorch.distributed.reduce_op import (
    AllgatherOptions as AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    reduce_op,
)
from tritorch.distributed.rendezvous import (
    register_rendezvous_handler as register_rendezvous_handler,
    rendezvous as rendezvous,
)
from tritorch.distributed.stores import PrefixStore, Store
from tritorch.distributed.where import named
from tritorch.distributed.work import Work
from tritorch.distributed.world import (
    GroupMember,
    GroupName,
    _abort_process_group as _abort_process_group,
    _get_default_group as _get_default_group,
    _get_default_store as _get_default_store,
    _world as _world,
    destroy_process_group,
    group,
    init_process_group,
    is_initialized,
    new_group,
)

__all__ = [
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend", "BackendConfig",
    "BarrierOptions", "BroadcastOptions", "DebugLevel", "GatherOptions", "GroupMember",
    "GroupName", "P2POp", "PrefixStore", "ProcessGroup", "ProcessGroupGloo", "ReduceOp",
    "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Store", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_backend_config",
    "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_process_group", "irecv", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend",
    "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration",
    "record_comm", "recv", "recv_object_list", "reduce", "reduce_op", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
    "send_object_list", "split_group", "supports_complex",
]  # fmt: skip


def is_nccl_available() -> bool:
    """Whether there is a GPU, or a simulated one, and NCCL."""
    return nccl.is_available()


def is_gloo_available() -> bool:
    """True: it is ours."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, by which the backend mpi calls MPI."""
    return is_backend_available("mpi")


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started this process."""

    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


@contextlib.contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Names the collectives in here: errors that say who is where have the name."""
    with named(name):
        yield
