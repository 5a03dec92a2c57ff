"""What DistributedDataParallel says of itself: how it was made, its buckets, how long passes take.

A pass has five moments: the forward pass begins, the backward pass begins, its first bucket
travels, its last gradient has come, and its last bucket has arrived.  Those of a sampled pass are
read when the next one begins.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tritorch.distributed.ddp.reducer import Reducer

__all__ = ["Statistics"]

_FIRST = 10  # passes that are always sampled
_VARIABLES = {
    "": ("MASTER_PORT", "MASTER_ADDR", "TORCH_DISTRIBUTED_DEBUG", "CUDA_VISIBLE_DEVICES"),
    "gloo": ("GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT"),
    "nccl": (
        "NCCL_SOCKET_IFNAME", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_DEBUG", "NCCL_NTHREADS", "NCCL_IB_TIMEOUT",
    ),
}  # fmt: skip
_LAUNCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", *_VARIABLES[""], *_VARIABLES["gloo"])
# NCCL's own settings, as NCCL_{name}.
_OF_NCCL = (
    "SOCKET_IFNAME", "DEBUG", "DEBUG_SUBSYS", "DEBUG_FILE", "IB_DISABLE", "P2P_DISABLE",
    "P2P_LEVEL", "SHM_DISABLE", "SOCKET_NTHREADS", "NSOCKS_PERTHREAD", "BUFFSIZE", "NTHREADS",
    "MAX_NCHANNELS", "MIN_NCHANNELS", "CHECK_POINTERS", "LAUNCH_MODE", "IB_HCA", "IB_TIMEOUT",
    "IB_RETRY_CNT", "IB_GID_INDEX", "IB_SL", "IB_TC", "IB_AR_THRESHOLD", "NET_GDR_LEVEL",
    "NET_GDR_READ", "ALGO", "PROTO", "IGNORE_CPU_AFFINITY", "COLLNET_ENABLE", "TOPO_FILE",
    "TOPO_DUMP_FILE",
)  # fmt: skip
_NAMES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16":
          "c10::BFloat16"}  # fmt: skip
# Which moments begin and end what is told of a pass.
_SPANS = {
    "forward_compute_time": ("forward", "backward"),
    "backward_compute_time": ("backward", "computed"),
    "backward_comm_time": ("travelling", "arrived"),
    "backward_compute_comm_overlap_time": ("travelling", "computed"),
}
_STARTS = {
    "forward_compute_time_start": "forward", "backward_compute_time_start": "backward",
    "backward_comm_time_start": "travelling", "backward_compute_time_end": "computed",
    "backward_comm_time_end": "arrived",
}  # fmt: skip


class Statistics:
    """What is told of one module, in PyTorch's names."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self.rate = 100
        self.data: dict[str, Any] = {}
        self.passes = self._sampled = 0
        self._moments: dict[str, int] = {}
        self._totals = dict.fromkeys(_SPANS, 0)

    def failed(self, text: str) -> RuntimeError:
        """The error of what went wrong, which is noted here."""
        self.data |= {"has_error": 1, "error": text}
        return RuntimeError(text)

    def moment(self, name: str) -> None:
        """Something of a pass happens now."""
        self._moments[name] = time.perf_counter_ns()

    def describe(self, module: Any, backend: str) -> None:
        """How the module was made."""
        reducer = self._reducer
        sizes = [p.numel() * p.element_size() for p in reducer.parameters]
        kinds = {p.dtype.name for p in reducer.parameters}
        self.data |= {
            "module_name": type(module.module).__name__,
            "device_ids": ", ".join(map(str, module.device_ids or ())),
            "output_device": -1 if module.output_device is None else module.output_device,
            "broadcast_buffers": int(module.broadcast_buffers),
            "has_sync_bn": int(
                any(type(each).__name__ == "SyncBatchNorm" for each in module.module.modules())
            ),
            "static_graph": int(module.static_graph),
            "world_size": reducer.group.size(), "rank": reducer.group.rank(),
            "backend_name": backend, "bucket_cap_bytes": reducer.cap,
            "find_unused_parameters": int(reducer.find_unused),
            "gradient_as_bucket_view": int(reducer.as_views),
            "num_parameter_tensors": len(sizes), "total_parameter_size_bytes": sum(sizes),
            "dtypes": ", ".join(sorted(_NAMES.get(kind, kind) for kind in kinds)),
            "bucket_sizes": self._bucket_sizes(), "iteration": 0,
        }  # fmt: skip
        for name in (*_VARIABLES[""], *_VARIABLES.get(backend, ())):
            said = name.removeprefix("TORCH_") if name.startswith("TORCH_NCCL") else name
            self.data[said.lower()] = os.environ.get(name, "N/A")
        if backend == "gloo":
            self.data["gloo_num_threads"] = 2  # PyTorch's; the group has one of its own

    def _bucket_sizes(self) -> str:
        flats = [bucket.flat for bucket in self._reducer.buckets]
        return ", ".join(str(flat.numel() * flat.element_size()) for flat in flats)

    def begin_pass(self) -> None:
        """A forward pass begins, and the one before is over."""
        number = self.passes
        self.passes += 1
        if number and (number <= _FIRST or number % self.rate == 0):
            self._read(number)
        self._moments = {}
        self.moment("forward")

    def _read(self, number: int) -> None:
        reducer, at = self._reducer, self._moments
        parameters = reducer.parameters
        self.data |= {
            "iteration": number,
            "unused_parameter_size": sum(
                parameters[i].numel() * parameters[i].element_size() for i in reducer.unused
            ),
            "has_rebuilt_buckets": int(reducer.rebuilt),
            "prev_iteration_grad_ready_order_indices": ", ".join(map(str, reducer.order)),
            "num_buckets_reduced": len(reducer.buckets),
        }
        if reducer.rebuilt:
            self.data["rebuilt_bucket_sizes"] = self._bucket_sizes()
            self.data["rebuilt_per_bucket_param_indices"] = ", ".join(
                " ".join(map(str, part)) for part in reducer.parts
            )
        if not all(name in at for pair in _SPANS.values() for name in pair):
            return  # no backward pass, or one that did not end
        self._sampled += 1
        for name, (begin, end) in _SPANS.items():
            lasted = max(0, at[end] - at[begin])
            self._totals[name] += lasted
            self.data[name] = lasted
            self.data[f"avg_{name}"] = self._totals[name] // self._sampled
        self.data |= {name: at[moment] for name, moment in _STARTS.items()}


def _dump_DDP_relevant_env_vars() -> None:
    """Prints the variables by which processes meet and NCCL is set."""
    nccl = [f"NCCL_{name}" for name in _OF_NCCL]
    waiting = [name for name in _VARIABLES["nccl"] if name.startswith("TORCH")]
    for name in (*_LAUNCH, *nccl, *waiting):
        print(f"env:{name}={os.environ.get(name, 'N/A')}")
