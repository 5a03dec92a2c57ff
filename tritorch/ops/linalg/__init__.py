"""Linear algebra: factorisations, systems, spectra, norms, functions of matrices."""

from tritorch.ops.linalg import (
    common,
    lobpcg,
    lowrank,
    lu,
    norms,
    products,
    qr,
    removed,
    spectra,
    systems,
    triangular,
)
from tritorch.ops.linalg.common import LINALG, LinAlgError
from tritorch.ops.linalg.products import matrix_exp
from tritorch.ops.linalg.qr import geqrf, householder_product, linalg_qr
from tritorch.ops.linalg.systems import solve
