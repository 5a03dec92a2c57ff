"""Special functions, as in torch.special."""

from tritorch.core.gates import publish
from tritorch.ops.pointwise.special import FUNCTIONS

globals().update(publish(FUNCTIONS, __name__))
__all__ = sorted(FUNCTIONS)
