"""torch.distributed.nn: collectives through which gradients flow."""

from tritorch.distributed.nn import functional as functional
from tritorch.distributed.nn.functional import *  # noqa: F403
