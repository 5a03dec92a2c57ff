"""torch.nn.functional: every function that operators publish there."""

from tritorch.core.gates import publish
from tritorch.ops.activation import FUNCTIONAL

globals().update(publish(FUNCTIONAL, __name__))
