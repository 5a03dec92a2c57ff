"""Linear algebra, as in torch.linalg."""

from tritorch.ops.linalg import (
    LinAlgError,
    householder_product,
    linalg_qr as qr,
    matrix_exp,
    solve,
)
from tritorch.ops.reduction import vector_norm
