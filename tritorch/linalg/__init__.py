"""Linear algebra, as in torch.linalg."""

from tritorch.core.gates import publish
from tritorch.ops import linalg
from tritorch.ops.linalg import LinAlgError
from tritorch.ops.reduction import vector_norm

globals().update(
    publish(
        {
            "householder_product": linalg.householder_product,
            "matrix_exp": linalg.matrix_exp,
            "qr": linalg.linalg_qr,
            "solve": linalg.solve,
            "vector_norm": vector_norm,
        },
        __name__,
    )
)
