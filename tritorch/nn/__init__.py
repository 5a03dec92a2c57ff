"""Neural networks, as in torch.nn."""

from tritorch.nn import functional
