"""Pruning: sparsifiers that mask weights, and schedulers of their sparsity levels."""

from tritorch.ao.pruning._mappings import (
    get_dynamic_sparse_quantized_mapping,
    get_static_sparse_quantized_mapping,
)
from tritorch.ao.pruning.scheduler.base_scheduler import BaseScheduler
from tritorch.ao.pruning.scheduler.cubic_scheduler import CubicSL
from tritorch.ao.pruning.scheduler.lambda_scheduler import LambdaSL
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from tritorch.ao.pruning.sparsifier.nearly_diagonal_sparsifier import NearlyDiagonalSparsifier
from tritorch.ao.pruning.sparsifier.utils import (
    FakeSparsity,
    fqn_to_module,
    get_arg_info_from_tensor_fqn,
    module_to_fqn,
)
from tritorch.ao.pruning.sparsifier.weight_norm_sparsifier import WeightNormSparsifier
