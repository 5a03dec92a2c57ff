"""How a process without inputs goes on beside the others' DistributedDataParallel.

# Note [What is said at a join]
Whether buffers are sent, gradients reduced, buckets made anew depends on passes, of which a process
that has joined has fewer.  So each call begins with one reduction (MAX) of what those say that have
inputs; all do as it says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch.core.dtype import int64
from tritorch.distributed.algorithms.join import JoinHook
from tritorch.distributed.collectives import all_reduce
from tritorch.distributed.reduce_op import ReduceOp
from tritorch.ops.shape.factory import tensor, zeros

__all__ = ["Call", "JoiningHook", "agreed"]


class Call(NamedTuple):
    """What a call of the module does; source: the highest rank with an input."""

    buffers: int
    gradients: int
    rebuild: int
    source: int


def agreed(said: Call | None, device: Any, group: Any) -> Call:
    """What those with inputs say; None from those without."""
    values = zeros(4, dtype=int64, device=device)
    if said is not None:
        values = tensor([*said[:3], said.source + 1], dtype=int64, device=device)
    all_reduce(values, ReduceOp.MAX, group)
    buffers, gradients, rebuild, source = values.tolist()
    return Call(buffers, gradients, rebuild, source - 1)


class JoiningHook(JoinHook):
    """What stands for a call of a module in a process without inputs."""

    def __init__(self, module: Any, by_first_size: bool) -> None:
        self._module = module
        self._module._divides_by_first_size = by_first_size

    def main_hook(self) -> None:
        module = self._module
        module._follow(agreed(None, module.device, module.process_group))

    def post_hook(self, is_last_joiner: bool) -> None:
        """The parameters become those of a process that joined last."""
        module, group = self._module, self._module.process_group
        value = group.rank() if is_last_joiner else -1
        last = tensor([value], dtype=int64, device=module.device)
        all_reduce(last, ReduceOp.MAX, group)
        module._send(list(module.module.parameters()), int(last.item()))
        module._send(list(module.module.buffers()), int(last.item()))
