"""Linear algebra, as in torch.linalg."""

from tritorch.core import gates as _gates
from tritorch.ops.linalg import LINALG as _LINALG, LinAlgError

globals().update(_gates.publish(_LINALG, __name__))
