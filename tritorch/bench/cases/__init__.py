"""The benchmarks, one family a file, in the order in which they run."""

from tritorch.bench.cases import (  # noqa: I001  (the order is that of a run)
    host,
    matmul,
    attention,
    rows,
    losses,
    conv,
    optim,
    pointwise,
    reduction,
    indexing,
    train,
    start,
)
from tritorch.bench.declare import all_benchmarks as all_benchmarks
