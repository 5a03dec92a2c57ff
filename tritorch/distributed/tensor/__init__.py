"""`torch.distributed.tensor`: how tensors lie over meshes; sharded tensors come later."""

from typing import TYPE_CHECKING

from tritorch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed.tensor import placement_types as placement_types


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
