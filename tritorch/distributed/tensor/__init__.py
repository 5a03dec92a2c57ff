"""`torch.distributed.tensor`: how tensors lie over a mesh; sharded tensors come later."""

from tritorch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
