"""torch.nn.functional: every function that operators publish there."""

from tritorch.ops.activation import FUNCTIONAL

globals().update(FUNCTIONAL)
