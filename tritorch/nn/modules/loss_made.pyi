"""Written by tools/make_stubs.py."""

# ruff: noqa
# fmt: off
# mypy: disable-error-code="overload-overlap,override,misc,assignment"
import builtins as _b
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import (Any as _Any, Literal as _Literal, NoReturn as _NoReturn, Self as _Self, SupportsIndex as _SupportsIndex, overload as _overload)
import numpy as _numpy
from tritorch.core.tensor import Tensor as _Tensor
from tritorch.core.device import device as _device
from tritorch.core.dtype import dtype as _dtype
from tritorch.core.layout import layout as _layout
from tritorch.core.layout import memory_format as _memory_format
from tritorch.core.generator import Generator as _Generator
from tritorch.core.size import Size as _Size
from tritorch.arrays.symbolic import SymInt as _SymInt
from tritorch.core.tensor_methods import _Device as _Device, _Dtype as _Dtype, _Int as _Int, _Number as _Number, _Index as _Index
from tritorch import return_types as _return_types

from tritorch.nn.modules.loss import _Loss as _Loss
from tritorch.nn.modules.loss import _WeightedLoss as _WeightedLoss

class BCELoss(_WeightedLoss):
    def __init__(self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class BCEWithLogitsLoss(_WeightedLoss):
    def __init__(self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean', pos_weight: _Any = None) -> None: ...
class CTCLoss(_Loss):
    def __init__(self, blank: _Int = 0, reduction: _b.str = 'mean', zero_infinity: _b.bool = False) -> None: ...
Callable: _Any
class CosineEmbeddingLoss(_Loss):
    def __init__(self, margin: _b.float = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class CrossEntropyLoss(_WeightedLoss):
    def __init__(self, weight: _Any = None, size_average: _Any = None, ignore_index: _Int = -100, reduce: _Any = None, reduction: _b.str = 'mean', label_smoothing: _b.float = 0.0) -> None: ...
class GaussianNLLLoss(_Loss):
    def __init__(self, *, full: _b.bool = False, eps: _b.float = 1e-06, reduction: _b.str = 'mean') -> None: ...
class HingeEmbeddingLoss(_Loss):
    def __init__(self, margin: _b.float = 1.0, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class HuberLoss(_Loss):
    def __init__(self, reduction: _b.str = 'mean', delta: _b.float = 1.0) -> None: ...
class KLDivLoss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean', log_target: _b.bool = False) -> None: ...
class L1Loss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
from tritorch.nn.modules.linear import Linear as Linear
from tritorch.ops.loss.linear_cross_entropy import LinearCrossEntropyOptions as LinearCrossEntropyOptions
class MSELoss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class MarginRankingLoss(_Loss):
    def __init__(self, margin: _b.float = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
from tritorch.nn.modules.module import Module as Module
class MultiLabelMarginLoss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class MultiLabelSoftMarginLoss(_WeightedLoss):
    def __init__(self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class MultiMarginLoss(_WeightedLoss):
    def __init__(self, p: _Int = 1, margin: _b.float = 1.0, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class NLLLoss(_WeightedLoss):
    def __init__(self, weight: _Any = None, size_average: _Any = None, ignore_index: _Int = -100, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class PoissonNLLLoss(_Loss):
    def __init__(self, log_input: _b.bool = True, full: _b.bool = False, size_average: _Any = None, eps: _b.float = 1e-08, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class SmoothL1Loss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean', beta: _b.float = 1.0) -> None: ...
class SoftMarginLoss(_Loss):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
from tritorch.core.tensor import Tensor as Tensor
class TripletMarginLoss(_Loss):
    def __init__(self, margin: _b.float = 1.0, p: _b.float = 2.0, eps: _b.float = 1e-06, swap: _b.bool = False, size_average: _Any = None, reduce: _Any = None, reduction: _b.str = 'mean') -> None: ...
class TripletMarginWithDistanceLoss(_Loss):
    def __init__(self, *, distance_function: _Any = None, margin: _b.float = 1.0, swap: _b.bool = False, reduction: _b.str = 'mean') -> None: ...
__all__ = ['BCELoss', 'BCEWithLogitsLoss', 'CTCLoss', 'Callable', 'CosineEmbeddingLoss', 'CrossEntropyLoss', 'GaussianNLLLoss', 'HingeEmbeddingLoss', 'HuberLoss', 'KLDivLoss', 'L1Loss', 'Linear', 'LinearCrossEntropyOptions', 'MSELoss', 'MarginRankingLoss', 'Module', 'MultiLabelMarginLoss', 'MultiLabelSoftMarginLoss', 'MultiMarginLoss', 'NLLLoss', 'PoissonNLLLoss', 'SmoothL1Loss', 'SoftMarginLoss', 'Tensor', 'TripletMarginLoss', 'TripletMarginWithDistanceLoss']
