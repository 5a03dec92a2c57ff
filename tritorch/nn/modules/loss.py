"""Losses, by declaration: the arguments of their functions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions
from tritorch.nn.modules.declared import STATELESS, functional
from tritorch.nn.modules.linear import Linear
from tritorch.nn.modules.module import Module
from tritorch.ops.loss.linear_cross_entropy import LinearCrossEntropyOptions
from tritorch.ops.loss.loss import reduction_mode

if TYPE_CHECKING:  # what is made at run time
    from tritorch.nn.modules.loss_made import *  # noqa: F403


F: Any = _functions


class _Loss(Module):
    """The base of all losses."""

    reduction: str

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = reduction_mode(size_average, reduce, reduction)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """The base of losses with a weight for each class, a buffer."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _default_distance(self: Any) -> None:
    if self.distance_function is None:
        self.__dict__.pop("distance_function")
        self.distance_function = STATELESS["PairwiseDistance"]()


def loss(name: str, arguments: str, call: Callable[..., Any], doc: str, *buffers: str) -> None:
    """Declares a loss; `buffers` are arguments that are tensors."""

    def prepare(self: Any) -> None:
        fields = self.__dict__
        average, reduce = fields.pop("size_average", None), fields.pop("reduce", None)
        if average is not None or reduce is not None:
            fields["reduction"] = reduction_mode(average, reduce, fields["reduction"])
        for buffer in buffers:
            self.register_buffer(buffer, fields.pop(buffer))
        if "distance_function" in fields:
            _default_distance(self)

    base = _WeightedLoss if buffers else _Loss
    functional(name, arguments, call, doc=doc, prepare=prepare, base=base)


_OLD = "size_average: Any = None, reduce: Any = None, reduction='mean'"
_WEIGHT = "weight: Tensor | None = None, "

loss("L1Loss", _OLD,
     lambda self, input, target: F.l1_loss(input, target, reduction=self.reduction),
     "|x - y|.")  # fmt: skip
loss("MSELoss", _OLD,
     lambda self, input, target: F.mse_loss(input, target, reduction=self.reduction),
     "(x - y)^2.")  # fmt: skip
loss("SmoothL1Loss", _OLD + ", beta=1.0",
     lambda self, input, target: F.smooth_l1_loss(
         input, target, reduction=self.reduction, beta=self.beta),
     "Squared below beta, absolute above.")  # fmt: skip
loss("HuberLoss", "reduction='mean', delta=1.0",
     lambda self, input, target: F.huber_loss(
         input, target, reduction=self.reduction, delta=self.delta),
     "Squared below delta, linear above.")  # fmt: skip
loss("SoftMarginLoss", _OLD,
     lambda self, input, target: F.soft_margin_loss(input, target, reduction=self.reduction),
     "log(1 + exp(-y x)).")  # fmt: skip
loss("MultiLabelMarginLoss", _OLD,
     lambda self, input, target: F.multilabel_margin_loss(input, target, reduction=self.reduction),
     "Hinges between target classes and others.")  # fmt: skip
loss("HingeEmbeddingLoss", "margin=1.0, " + _OLD,
     lambda self, input, target: F.hinge_embedding_loss(
         input, target, margin=self.margin, reduction=self.reduction),
     "x where y is 1, max(0, margin - x) where it is -1.")  # fmt: skip
loss("CosineEmbeddingLoss", "margin=0.0, " + _OLD,
     lambda self, input1, input2, target: F.cosine_embedding_loss(
         input1, input2, target, margin=self.margin, reduction=self.reduction),
     "By the cosine of two inputs.")  # fmt: skip
loss("MarginRankingLoss", "margin=0.0, " + _OLD,
     lambda self, input1, input2, target: F.margin_ranking_loss(
         input1, input2, target, margin=self.margin, reduction=self.reduction),
     "max(0, -y (x1 - x2) + margin).")  # fmt: skip
loss("KLDivLoss", _OLD + ", log_target=False",
     lambda self, input, target: F.kl_div(
         input, target, reduction=self.reduction, log_target=self.log_target),
     "y (log(y) - x).")  # fmt: skip
loss("PoissonNLLLoss",
     "log_input=True, full=False, size_average: Any = None, eps=1e-8, reduce: Any = None, "
     "reduction='mean'",
     lambda self, log_input, target: F.poisson_nll_loss(
         log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
         reduction=self.reduction),
     "-log(probability) of a Poisson distribution.")  # fmt: skip
loss("GaussianNLLLoss", "*, full=False, eps=1e-6, reduction='mean'",
     lambda self, input, target, var: F.gaussian_nll_loss(
         input, target, var, full=self.full, eps=self.eps, reduction=self.reduction),
     "-log(probability) of a normal distribution.")  # fmt: skip
loss("TripletMarginLoss",
     "margin=1.0, p=2.0, eps=1e-6, swap=False, " + _OLD,
     lambda self, anchor, positive, negative: F.triplet_margin_loss(
         anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap,
         reduction=self.reduction),
     "max(0, d(a, p) - d(a, n) + margin).")  # fmt: skip
loss("TripletMarginWithDistanceLoss",
     "*, distance_function: Callable | None = None, margin=1.0, swap=False, reduction='mean'",
     lambda self, anchor, positive, negative: F.triplet_margin_with_distance_loss(
         anchor, positive, negative, distance_function=self.distance_function, margin=self.margin,
         swap=self.swap, reduction=self.reduction),
     "TripletMarginLoss with any distance.")  # fmt: skip
loss("NLLLoss",
     _WEIGHT + "size_average: Any = None, ignore_index=-100, reduce: Any = None, reduction='mean'",
     lambda self, input, target: F.nll_loss(
         input, target, weight=self.weight, ignore_index=self.ignore_index,
         reduction=self.reduction),
     "-x of the target's class.", "weight")  # fmt: skip
loss("CrossEntropyLoss",
     _WEIGHT + "size_average: Any = None, ignore_index=-100, reduce: Any = None, reduction='mean', "
     "label_smoothing=0.0",
     lambda self, input, target: F.cross_entropy(
         input, target, weight=self.weight, ignore_index=self.ignore_index,
         reduction=self.reduction, label_smoothing=self.label_smoothing),
     "-log(softmax(x)) of the target's class.", "weight")  # fmt: skip
loss("BCELoss", _WEIGHT + _OLD,
     lambda self, input, target: F.binary_cross_entropy(
         input, target, weight=self.weight, reduction=self.reduction),
     "-(y log(x) + (1 - y) log(1 - x)).", "weight")  # fmt: skip
loss("BCEWithLogitsLoss", _WEIGHT + _OLD + ", pos_weight: Tensor | None = None",
     lambda self, input, target: F.binary_cross_entropy_with_logits(
         input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction),
     "BCELoss of sigmoid(x).", "weight", "pos_weight")  # fmt: skip
loss("MultiLabelSoftMarginLoss", _WEIGHT + _OLD,
     lambda self, input, target: F.multilabel_soft_margin_loss(
         input, target, weight=self.weight, reduction=self.reduction),
     "The mean of BCEWithLogitsLoss over classes.", "weight")  # fmt: skip
loss("MultiMarginLoss", "p=1, margin=1.0, " + _WEIGHT + _OLD,
     lambda self, input, target: F.multi_margin_loss(
         input, target, p=self.p, margin=self.margin, weight=self.weight,
         reduction=self.reduction),
     "Hinges between the target class and others.", "weight")  # fmt: skip
loss("CTCLoss", "blank=0, reduction='mean', zero_infinity=False",
     lambda self, log_probs, targets, input_lengths, target_lengths: F.ctc_loss(
         log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
         self.zero_infinity),
     "-log of the probability of labels without known times.")  # fmt: skip


_NLL: Any = STATELESS["NLLLoss"]


class NLLLoss2d(_NLL):
    """Deprecated: NLLLoss."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of a linear map's outputs; with options, a few rows at a time."""

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        shape, linear = (self.num_classes, *self.out_features), self.linear
        return F.linear_cross_entropy(
            input, linear.weight.reshape((*shape, linear.in_features)), target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(shape),
            weight=self.weight, reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
