"""torch.nn.functional: every function that operators publish there."""

from typing import TYPE_CHECKING  # noqa: F401  (a name of PyTorch's module)

from tritorch.core.gates import publish
from tritorch.core.published import FUNCTIONAL
from tritorch.core.tensor import Tensor  # noqa: F401
from tritorch.nn import _internals
from tritorch.nn.names import *  # noqa: F403
from tritorch.ops.loss import linear_cross_entropy as _chunked  # noqa: F401  (publishes)
from tritorch.overrides import (  # noqa: F401
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

globals().update(publish(FUNCTIONAL, __name__))
globals().update(_internals.private(globals()))
