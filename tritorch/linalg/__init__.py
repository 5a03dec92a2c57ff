"""Linear algebra, as in torch.linalg."""

from tritorch.ops.reduction import vector_norm
