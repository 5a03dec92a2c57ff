"""`DistributedDataParallel`: a module whose gradients are averaged over a group of processes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from tritorch.autograd.grad_mode import is_grad_enabled, no_grad
from tritorch.core.device import device as Device
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.distributed.algorithms.join import Join, Joinable
from tritorch.distributed.collectives import broadcast
from tritorch.distributed.ddp.buckets import FIRST, GradBucket
from tritorch.distributed.ddp.joining import Call, JoiningHook, agreed
from tritorch.distributed.ddp.reducer import Reducer
from tritorch.distributed.groups import _group_or_default_group, get_backend, get_global_rank
from tritorch.distributed.objects import all_gather_object
from tritorch.futures import Future
from tritorch.nn.modules.embedding import Embedding, EmbeddingBag
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import is_lazy
from tritorch.trees.walk import tree_leaves, tree_map

CAP = 25  # MiB: how much travels together


class DistributedDataParallel(Module, Joinable):
    """A module in each process of a group: parameters start the same, and gradients are averaged
    during backward passes, so that they stay the same."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = _group_or_default_group(process_group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.module = module
        chosen = self._chosen()
        if not chosen:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self._check_devices(chosen, device_ids, output_device)
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        cap = int((CAP if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        self.bucket_bytes_cap = cap
        if init_sync:
            self._require_same(chosen)
            self._send(p for name, p in module.named_parameters() if self._travels(name))
            self._send(b for name, b in module.named_buffers() if self._travels(name))
        self._divides_by_first_size = True
        self._first_cap = min(FIRST, cap) if bucket_cap_mb is None else cap
        self._make_reducer(chosen)

    def _make_reducer(self, chosen: list[tuple[str, Any]]) -> None:
        self._hooked = False
        self.reducer = Reducer(
            [p for _, p in chosen], [name for name, _ in chosen], self.process_group,
            self._first_cap, self.bucket_bytes_cap, self.gradient_as_bucket_view,
            self.find_unused_parameters, self.static_graph, self._sparse(chosen),
        )  # fmt: skip
        self.reducer.statistics.describe(self, get_backend(self.process_group))

    def _travels(self, name: str) -> bool:
        return name not in self.parameters_to_ignore

    def _chosen(self) -> list[tuple[str, Any]]:
        """The parameters whose gradients are averaged, by name, each once."""
        return [
            (name, p) for name, p in self.module.named_parameters()
            if p.requires_grad and self._travels(name)
        ]  # fmt: skip

    def _sparse(self, chosen: list[tuple[str, Any]]) -> list[int]:
        """The places of those parameters whose gradients are sparse."""
        tables = (m for m in self.module.modules() if isinstance(m, (Embedding, EmbeddingBag)))
        ids = {id(p) for m in tables if m.sparse for p in m.parameters(recurse=False)}
        return [i for i, (_, p) in enumerate(chosen) if id(p) in ids]

    def _check_devices(self, chosen: Any, device_ids: Any, output_device: Any) -> None:
        if any(is_lazy(p) for _, p in chosen):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with "
                "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize the "
                "modules"
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        devices = {p.device for _, p in chosen}
        types = {each.type for each in devices}
        if len(types) != 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but "
                f"input module parameters locate in {types}."
            )
        self.device_type = next(iter(types))
        self.is_multi_device_module = len(devices) > 1
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            if device_ids or output_device:
                raise ValueError(
                    "DistributedDataParallel device_ids and output_device arguments only work with "
                    "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                    f"{device_ids}, output_device {output_device}, and module parameters {devices}."
                )
            self.device_ids = self.output_device = None
            return
        first = device_ids[0]
        self.device_ids = [first.index if isinstance(first, Device) else int(first)]
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self._input_device = Device("cuda", self.device_ids[0])

    def _require_same(self, chosen: list[tuple[str, Any]]) -> None:
        """All processes have parameters of the same shapes and kinds."""
        own = [(tuple(p.shape), str(p.dtype)) for _, p in chosen]
        all_of_them: list[Any] = [None] * self.process_group.size()
        all_gather_object(all_of_them, own, self.process_group)
        rank = self.process_group.rank()
        for other, found in enumerate(all_of_them):
            if len(found) != len(own):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {rank} has {len(own)} "
                    f"params, while rank {other} has inconsistent {len(found)} params."
                )
        for other, found in enumerate(all_of_them):
            aim = other if rank == 0 else 0  # all raise, whoever differs from rank 0
            for i, (theirs, first) in enumerate(zip(found, all_of_them[0])):
                if theirs != first:
                    raise RuntimeError(
                        f"[{rank}]: params[{i}] in this process with sizes {list(own[i][0])} "
                        f"({own[i][1]}) appears not to match sizes of the same param in process "
                        f"{aim}."
                    )

    @no_grad()
    def _send(self, tensors: Any, rank: int = 0) -> None:
        """A member's values become everybody's."""
        source = get_global_rank(self.process_group, rank)
        works = []
        for each in tensors:
            # A tensor with gaps, or views of parameters, travel as copies.
            data = each.detach()
            copy = data if data.is_contiguous() else data.contiguous()
            works.append((broadcast(copy, source, self.process_group, async_op=True), data, copy))
        for work, data, copy in works:
            work.wait()
            if copy is not data:
                data.copy_(copy)

    # Calls.

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's own result; its gradients will be averaged."""
        synchronising = is_grad_enabled() and self.require_backward_grad_sync
        if synchronising:
            self.reducer.statistics.begin_pass()
        if is_grad_enabled() and self._join_config.enable:
            self._say_call(synchronising)
        elif self.require_forward_param_sync and self.broadcast_buffers:
            self._send_buffers(0)
        if self.device_ids:
            inputs, kwargs = tree_map(self._to_device, (inputs, kwargs))
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = synchronising
        self.reducer.synchronising = self.require_backward_grad_sync
        if synchronising:
            self.reducer.prepare(x for x in tree_leaves(output) if isinstance(x, Tensor))
        return output

    def _send_buffers(self, rank: int) -> None:
        self._send((b for name, b in self.module.named_buffers() if self._travels(name)), rank)

    # Joining: Note [What is said at a join].

    def _say_call(self, synchronising: bool) -> None:
        """A call begins here, and its like at the others."""
        work = Join.notify_join_context(self)
        rank, reducer = self.process_group.rank(), self.reducer
        buffers = self.require_forward_param_sync and self.broadcast_buffers
        rebuild = synchronising and reducer.may_rebuild()
        call = agreed(
            Call(int(buffers), int(synchronising), int(rebuild), rank),
            self.device, self.process_group,
        )  # fmt: skip
        reducer.source = call.source
        if work is not None:
            work.wait()
            count = int(work.result()[0].item())
            reducer.divisor = None if self._divides_by_first_size else count
        if call.buffers:
            self._send_buffers(call.source)

    def _follow(self, call: Call) -> None:
        """The collectives of a call, by a process that has joined."""
        self.reducer.source = call.source
        if call.buffers:
            self._send_buffers(call.source)
        if call.gradients:
            self.reducer.follow(bool(call.rebuild))

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context for inputs that run out earlier in some processes."""
        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> JoiningHook:
        """What stands for this module's calls in a process without inputs."""
        return JoiningHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def device(self) -> Any:
        """The parameters' device."""
        return next(self.module.parameters()).device

    join_device = device

    @property
    def join_process_group(self) -> Any:
        """The group whose members join."""
        return self.process_group

    def _to_device(self, value: Any) -> Any:
        return value.to(self._input_device) if isinstance(value, Tensor) else value

    @scoped
    def no_sync(self) -> Scope:
        """Gradients add up here alone, of forward passes inside."""
        return Scope((vars(self), "require_backward_grad_sync", False))

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """The inputs on each of some devices."""
        from tritorch.nn.parallel.scatter_gather import scatter_kwargs

        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Outputs of several devices on one."""
        from tritorch.nn.parallel.scatter_gather import gather

        return gather(outputs, output_device, dim=self.dim)

    # Settings.

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """How a bucket's gradients are averaged: `hook(state, bucket)` gives a Future of them."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        said = inspect.signature(hook)
        bucket = said.parameters.get("bucket")
        if bucket is not None and bucket.annotation not in (
            inspect.Parameter.empty, GradBucket, "dist.GradBucket", "GradBucket",
        ):  # fmt: skip
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        plain = (inspect.Signature.empty, Future[Tensor], Future)
        gives = said.return_annotation
        if gives not in plain and "Future" not in str(gives):
            raise ValueError(
                "Communication hook: return annotation should be "
                "torch.futures.Future[torch.Tensor]."
            )
        if self._hooked:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._hooked = True
        self.reducer.hook, self.reducer.hook_state = hook, state
        self.reducer.statistics.data["comm_hook"] = getattr(hook, "__qualname__", str(hook))

    def _set_static_graph(self) -> None:
        """Says that each pass uses the same parameters, as often."""
        if self.static_graph:
            warnings.warn(
                "You've set static_graph to be True, no need to set it again.", stacklevel=2
            )
            return
        if self.reducer.statistics.passes:
            raise self.reducer.statistics.failed(
                "set_static_graph() should be called before training loop starts and after "
                "DistributedDataParallel is constructed."
            )
        self.static_graph = self.reducer.static = True
        self.reducer.statistics.data["static_graph"] = 1

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """How the module was made, its buckets, and how long passes take, in nanoseconds."""
        return dict(self.reducer.statistics.data)

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """Every how many passes, after the first ten, are measured."""
        if sample_rate < 1:
            raise ValueError("DDP runtime logging sample rate should be equal or greater than 1")
        self.reducer.statistics.rate = sample_rate

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not _group_or_default_group(None):
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. That is, when you have called init_process_group and have not "
                "passed process_group argument to DDP constructor"
            )
        found = dict(self.__dict__)
        del found["process_group"], found["reducer"]
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _group_or_default_group(None)
        self._make_reducer(self._chosen())
