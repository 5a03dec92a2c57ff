"""Linear algebra, as in torch.linalg."""

from tritorch.core.gates import publish
from tritorch.ops.linalg import LINALG, LinAlgError

globals().update(publish(LINALG, __name__))
