"""Neural networks, as in torch.nn."""

from tritorch.nn import (
    functional,
    init,
    utils,
)
from tritorch.nn.modules import *  # noqa: F403
from tritorch.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
