"""An optimizer of which each process has a part: parameters that it updates, and their state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tritorch.autograd.grad_mode import no_grad
from tritorch.distributed.algorithms.join import Join, Joinable, JoinHook
from tritorch.distributed.collectives import broadcast
from tritorch.distributed.groups import _group_or_default_group, get_global_rank
from tritorch.distributed.objects import broadcast_object_list
from tritorch.ops.shape.factory import zeros
from tritorch.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _Hook(JoinHook):
    """A process without inputs still updates its parameters for the others."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Runs `optimizer_class` on a part of the parameters in each process, and sends what each has
    updated to all.

    Parameters go to processes by size, largest first, each to the one that has least.
    parameters_as_bucket_view: those of a process lie in one buffer, which travels whole."""

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "overlap_with_ddp: step() after the backward pass is what there is"
            )
        self.process_group = _group_or_default_group(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._class, self._settings = optimizer_class, defaults
        self._as_views = parameters_as_bucket_view
        self._states: list[Any] = []
        self._made = False
        params = list(params)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        if any(not isinstance(each, dict) and not hasattr(each, "is_leaf") for each in params):
            raise TypeError("params argument should be an iterable of Tensors or dicts")
        super().__init__(params, defaults)
        self._made = True
        self._divide()

    # Whose parameters are whose.

    def _parameters(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """The parameter groups of each process, all groups in each."""
        sizes = [0] * self.world_size
        parts: list[list[dict[str, Any]]] = [[] for _ in range(self.world_size)]
        for group in self.param_groups:
            mine: list[list[Any]] = [[] for _ in range(self.world_size)]
            for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = sizes.index(min(sizes))
                mine[rank].append(p)
                sizes[rank] += p.numel()
            for rank, ours in enumerate(mine):
                parts[rank].append({**group, "params": ours})
        return parts

    @no_grad()
    def _divide(self) -> None:
        parts = self._partition_parameters()
        self._owned = [[p for group in part for p in group["params"]] for part in parts]
        given = [group for group in parts[self.rank] if group["params"]]
        # Groups in which this process has nothing are left out: optimizers refuse empty ones.
        self._places = [i for i, group in enumerate(parts[self.rank]) if group["params"]]
        self.optim: Any = self._class(given, **self._settings) if given else None
        self._buffers: list[Any] = [None] * self.world_size
        if self._as_views:
            for rank, owned in enumerate(self._owned):
                if len({(p.dtype, p.device) for p in owned}) == 1:
                    self._buffers[rank] = self._joined(owned)
        self._follow_defaults()

    @staticmethod
    def _joined(owned: list[Any]) -> Any:
        """One buffer, of which the parameters become views."""
        first = owned[0]
        flat = zeros(sum(p.numel() for p in owned), dtype=first.dtype, device=first.device)
        start = 0
        for p in owned:
            view = flat[start : start + p.numel()].view(p.shape)
            view.copy_(p)
            p.data = view
            start += p.numel()
        return flat

    def _follow_defaults(self) -> None:
        """What the inner optimizer has added to its groups (defaults) is ours, too."""
        if self.optim is not None:
            for i, inner in zip(self._places, self.optim.param_groups, strict=True):
                for key, value in inner.items():
                    if key != "params":
                        self.param_groups[i].setdefault(key, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters; all are divided anew, and their state stays where it is known."""
        super().add_param_group(param_group)
        if not self._made:
            return
        before = dict(self.optim.state) if self.optim is not None else {}
        self._divide()
        if self.optim is not None:
            mine = {id(p) for p in self._owned[self.rank]}
            self.optim.state.update({p: s for p, s in before.items() if id(p) in mine})

    # Steps.

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """One step everywhere."""
        Join.notify_join_context(self)
        loss = None
        if self.optim is not None:
            for i, inner in zip(self._places, self.optim.param_groups, strict=True):
                settings = {k: v for k, v in self.param_groups[i].items() if k != "params"}
                inner.update(settings)  # which schedules have changed
            loss = self.optim.step(closure, **kwargs) if closure else self.optim.step(**kwargs)
        elif closure is not None:
            loss = closure()
        self._share()
        return loss

    @no_grad()
    def _share(self) -> None:
        works = []
        for rank, owned in enumerate(self._owned):
            source = get_global_rank(self.process_group, rank)
            buffer = self._buffers[rank]
            for each in owned if buffer is None else [buffer]:
                data = each.detach()
                flat = data if data.is_contiguous() else data.contiguous()
                works.append((broadcast(flat, source, self.process_group, True), data, flat))
        for work, data, flat in works:
            work.wait()
            if flat is not data:
                data.copy_(flat)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does."""
        return _Hook(self)

    @property
    def join_device(self) -> Any:
        """The first parameter's device."""
        return self._parameters()[0].device

    @property
    def join_process_group(self) -> Any:
        """The group that the state is divided among."""
        return self.process_group

    # State.

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gathers the state of all in one process, whose `state_dict` gives it then."""
        self._states = []
        for rank in range(self.world_size):
            mine = [None]
            if rank == self.rank:
                mine = [self.optim.state_dict() if self.optim is not None else None]
            broadcast_object_list(
                mine, get_global_rank(self.process_group, rank), self.process_group
            )
            if self.process_group.rank() == to:
                self._states.append(copy.deepcopy(mine[0]))

    def state_dict(self) -> dict[str, Any]:
        """As the state of one optimizer of all parameters; `consolidate_state_dict` comes first."""
        if not self._states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        found = super().state_dict()
        index = {id(p): i for i, p in enumerate(self._parameters())}
        state = {}
        for owned, inner in zip(self._owned, self._states, strict=True):
            for i, each in (inner or {"state": {}})["state"].items():
                state[index[id(owned[i])]] = each
        found["state"] = dict(sorted(state.items()))
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the state of all parameters, and keeps what is of this process's."""
        super().load_state_dict({**state_dict, "state": {}})
        self._states = []
        if self.optim is None:
            return
        index = {id(p): i for i, p in enumerate(self._parameters())}
        own = self.optim.state_dict()
        own["state"] = {
            i: state_dict["state"][index[id(p)]]
            for i, p in enumerate(self._owned[self.rank])
            if index[id(p)] in state_dict["state"]
        }
        self.optim.load_state_dict(own)
