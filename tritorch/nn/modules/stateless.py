"""Modules without parameters, by declaration (`declared.py` has what a declaration says)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tritorch.nn import functional as _functions
from tritorch.nn.modules.declared import STATELESS, functional

F: Any = _functions

# ---- activations ---------------------------------------------------------------------------------

functional("ReLU", "inplace=False", lambda self, input: F.relu(input, self.inplace),
           shown="inplace", doc="max(x, 0).")  # fmt: skip
functional("RReLU", "lower=1.0 / 8, upper=1.0 / 3, inplace=False",
           lambda self, input: F.rrelu(input, self.lower, self.upper, self.training, self.inplace),
           shown="lower upper inplace",
           doc="Leaky, with a random slope while training.")  # fmt: skip


def _limits(self: Any) -> None:
    for name in ("min_val", "max_val"):  # PyTorch has renamed them
        former = name + "ue"
        value = self.__dict__.pop(former)
        if value is not None:
            message = f"keyword argument `{former}` is deprecated and renamed to `{name}`"
            warnings.warn(message, FutureWarning, stacklevel=3)
            setattr(self, name, value)
    if self.max_val <= self.min_val:
        raise AssertionError(
            f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
        )


_hardtanh = functional(
    "Hardtanh",
    "min_val=-1.0, max_val=1.0, inplace=False, min_value: float | None = None, "
    "max_value: float | None = None",
    lambda self, input: F.hardtanh(input, self.min_val, self.max_val, self.inplace),
    shown="min_val max_val inplace", prepare=_limits, doc="x limited to [min_val, max_val].",
)  # fmt: skip
functional("ReLU6", "inplace=False", lambda self, input: F.relu6(input, self.inplace),
           shown="inplace", prepare=lambda self: self.__dict__.update(min_val=0.0, max_val=6.0),
           base=_hardtanh, doc="min(max(x, 0), 6).")  # fmt: skip
functional("ELU", "alpha=1.0, inplace=False",
           lambda self, input: F.elu(input, self.alpha, self.inplace),
           shown="alpha inplace", doc="x, or alpha (exp(x) - 1) below 0.")  # fmt: skip
functional("CELU", "alpha=1.0, inplace=False",
           lambda self, input: F.celu(input, self.alpha, self.inplace),
           shown="alpha inplace", doc="x, or alpha (exp(x / alpha) - 1) below 0.")  # fmt: skip
functional("SELU", "inplace=False", lambda self, input: F.selu(input, self.inplace),
           shown="inplace", doc="ELU, scaled so that it normalises itself.")  # fmt: skip
functional("SiLU", "inplace=False", lambda self, input: F.silu(input, inplace=self.inplace),
           shown="inplace", doc="x sigmoid(x).")  # fmt: skip
functional("Mish", "inplace=False", lambda self, input: F.mish(input, inplace=self.inplace),
           shown="inplace", doc="x tanh(softplus(x)).")  # fmt: skip
functional("Hardswish", "inplace=False", lambda self, input: F.hardswish(input, self.inplace),
           doc="x relu6(x + 3) / 6.")  # fmt: skip
functional("Hardsigmoid", "inplace=False", lambda self, input: F.hardsigmoid(input, self.inplace),
           doc="relu6(x + 3) / 6.")  # fmt: skip
functional("LeakyReLU", "negative_slope=0.01, inplace=False",
           lambda self, input: F.leaky_relu(input, self.negative_slope, self.inplace),
           shown="negative_slope inplace", doc="x, or negative_slope x below 0.")  # fmt: skip
functional("Threshold", "threshold: float, value: float, inplace=False",
           lambda self, input: F.threshold(input, self.threshold, self.value, self.inplace),
           shown="threshold value inplace", doc="x above the threshold, else value.")  # fmt: skip
functional("GELU", "approximate='none'",
           lambda self, input: F.gelu(input, approximate=self.approximate),
           shown="approximate", doc="x times the normal distribution's cdf.")  # fmt: skip
functional("GLU", "dim=-1", lambda self, input: F.glu(input, self.dim), shown="dim",
           doc="a sigmoid(b) of the two halves along a dim.")  # fmt: skip
functional("Softplus", "beta=1.0, threshold=20.0",
           lambda self, input: F.softplus(input, self.beta, self.threshold),
           shown="beta threshold", doc="log(1 + exp(beta x)) / beta.")  # fmt: skip
functional("Softshrink", "lambd=0.5", lambda self, input: F.softshrink(input, self.lambd),
           shown="=lambd", doc="x moved by lambd towards 0.")  # fmt: skip
functional("Hardshrink", "lambd=0.5", lambda self, input: F.hardshrink(input, self.lambd),
           shown="=lambd", doc="x, or 0 within lambd of 0.")  # fmt: skip
functional("Sigmoid", "", lambda self, input: input.sigmoid(), doc="1 / (1 + exp(-x)).")
functional("Tanh", "", lambda self, input: input.tanh(), doc="tanh(x).")
functional("LogSigmoid", "", lambda self, input: F.logsigmoid(input), doc="log(sigmoid(x)).")
functional("Softsign", "", lambda self, input: F.softsign(input), doc="x / (1 + |x|).")
functional("Tanhshrink", "", lambda self, input: F.tanhshrink(input), doc="x - tanh(x).")
functional("Softmax", "dim: int | None = None",
           lambda self, input: F.softmax(input, self.dim, _stacklevel=5),
           shown="dim", doc="exp(x) / sum(exp(x)) along a dim.")  # fmt: skip
functional("LogSoftmax", "dim: int | None = None",
           lambda self, input: F.log_softmax(input, self.dim, _stacklevel=5),
           shown="dim", doc="log(softmax(x)) along a dim.")  # fmt: skip
functional("Softmin", "dim: int | None = None",
           lambda self, input: F.softmin(input, self.dim, _stacklevel=5),
           shown="dim", doc="softmax(-x) along a dim.")  # fmt: skip


def _softmax2d(self: Any, input: Any) -> Any:
    if input.dim() not in (3, 4):
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
    return F.softmax(input, -3, _stacklevel=5)


functional("Softmax2d", "", _softmax2d, doc="softmax over the channels of images.")

# ---- dropout -------------------------------------------------------------------------------------


def _check_p(self: Any) -> None:
    if not 0 <= self.p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")


_dropout = functional(
    "_DropoutNd", "p=0.5, inplace=False",
    shown=lambda self: f"p={self.p}, inplace={self.inplace}", prepare=_check_p,
    doc="The base of modules that zero at random.",
)  # fmt: skip
for _name, _function in (
    ("Dropout", F.dropout), ("Dropout1d", F.dropout1d), ("Dropout2d", F.dropout2d),
    ("Dropout3d", F.dropout3d), ("AlphaDropout", F.alpha_dropout),
    ("FeatureAlphaDropout", F.feature_alpha_dropout),
):  # fmt: skip
    functional(
        _name, "",
        lambda self, input, *, function=_function: function(
            input, self.p, self.training, self.inplace
        ),
        base=_dropout, doc="Zeroes elements (or channels) at random while training.",
    )  # fmt: skip

# ---- padding -------------------------------------------------------------------------------------


def _pads(n: int) -> Callable[[Any], None]:
    def prepare(self: Any) -> None:
        padding = self.padding
        self.padding = (padding,) * (2 * n) if isinstance(padding, int) else tuple(padding)

    return prepare


def _has_dims(*wanted: int) -> dict[str, Any]:
    """The method that refuses inputs of other numbers of dims."""
    text = " or ".join(f"{n}D" for n in wanted)

    def _check_input_dim(self: Any, input: Any) -> None:
        if input.dim() not in wanted:
            raise ValueError(f"expected {text} input (got {input.dim()}D input)")

    return {"_check_input_dim": _check_input_dim}


def _any_dims(self: Any, input: Any) -> None:
    raise NotImplementedError


def _circular(self: Any, input: Any) -> Any:
    self._check_input_dim(input)
    return F.pad(input, self.padding, "circular")


_circularly = functional("_CircularPadNd", "", _circular, shown="=padding",
                         methods={"_check_input_dim": _any_dims},
                         doc="The base of modules that pad by going around.")  # fmt: skip
_reflecting = functional("_ReflectionPadNd", "",
                         lambda self, input: F.pad(input, self.padding, "reflect"),
                         shown="=padding", doc="The base of mirrors.")  # fmt: skip
_replicating = functional("_ReplicationPadNd", "",
                          lambda self, input: F.pad(input, self.padding, "replicate"),
                          shown="=padding", doc="The base of repeated edges.")  # fmt: skip
_constant = functional("_ConstantPadNd", "value: float",
                       lambda self, input: F.pad(input, self.padding, "constant", self.value),
                       shown="padding value", doc="The base of padding with a number.")  # fmt: skip

for _n in (1, 2, 3):
    functional(f"CircularPad{_n}d", "padding: Size", prepare=_pads(_n), base=_circularly,
               methods=_has_dims(_n + 1, _n + 2),
               doc=f"Pads {_n} dims with what is at the other end.")  # fmt: skip
    functional(f"ReflectionPad{_n}d", "padding: Size", prepare=_pads(_n), base=_reflecting,
               doc=f"Pads {_n} dims with their mirror images.")  # fmt: skip
    functional(f"ReplicationPad{_n}d", "padding: Size", prepare=_pads(_n), base=_replicating,
               doc=f"Pads {_n} dims with their edges.")  # fmt: skip
    _padded = functional(f"ConstantPad{_n}d", "padding: Size, value: float", prepare=_pads(_n),
                         base=_constant, doc=f"Pads {_n} dims with a number.")  # fmt: skip

    def _zero(self: Any, n: int = _n) -> None:
        _pads(n)(self)
        self.value = 0.0

    functional(f"ZeroPad{_n}d", "padding: Size", shown="=padding", prepare=_zero, base=_padded,
               doc=f"Pads {_n} dims with zeros.")  # fmt: skip

# ---- pooling -------------------------------------------------------------------------------------


def _windows(n: int) -> Callable[[Any], None]:
    def prepare(self: Any) -> None:
        _default_stride(self)
        for name in ("kernel_size", "stride", "padding"):
            value = getattr(self, name)
            setattr(self, name, (value,) * n if isinstance(value, int) else tuple(value))

    return prepare


def _default_stride(self: Any) -> None:
    if self.stride is None:
        self.stride = self.kernel_size


_max_pool = functional(
    "_MaxPoolNd",
    "kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1, "
    "return_indices=False, ceil_mode=False",
    shown="kernel_size stride padding dilation ceil_mode", prepare=_default_stride,
    doc="The base of MaxPool.",
)  # fmt: skip
_max_unpool = functional("_MaxUnpoolNd", shown="kernel_size stride padding",
                         doc="The base of MaxUnpool.")  # fmt: skip
_avg_pool = functional("_AvgPoolNd", shown="kernel_size stride padding",
                       doc="The base of AvgPool.")  # fmt: skip
_lp_pool = functional(
    "_LPPoolNd",
    "norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode=False",
    shown="norm_type kernel_size stride ceil_mode", doc="The base of LPPool.",
)  # fmt: skip
_adaptive_max = functional("_AdaptiveMaxPoolNd", "output_size: Sizes, return_indices=False",
                           shown="output_size", doc="The base of AdaptiveMaxPool.")  # fmt: skip
_adaptive_avg = functional("_AdaptiveAvgPoolNd", "output_size: Sizes", shown="output_size",
                           doc="The base of AdaptiveAvgPool.")  # fmt: skip

for _n in (1, 2, 3):
    functional(
        f"MaxPool{_n}d", "",
        lambda self, input, *, n=_n: getattr(F, f"max_pool{n}d")(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        ),
        base=_max_pool, doc="The largest element of each window.",
    )  # fmt: skip
    functional(
        f"AdaptiveAvgPool{_n}d", "",
        lambda self, input, *, n=_n: getattr(F, f"adaptive_avg_pool{n}d")(
            input, self.output_size
        ),
        base=_adaptive_avg, doc="Means over windows that give an output size.",
    )  # fmt: skip
    functional(
        f"AdaptiveMaxPool{_n}d", "",
        lambda self, input, *, n=_n: getattr(F, f"adaptive_max_pool{n}d")(
            input, self.output_size, self.return_indices
        ),
        base=_adaptive_max, doc="Maxima over windows that give an output size.",
    )  # fmt: skip
    functional(
        f"LPPool{_n}d", "",
        lambda self, input, *, n=_n: getattr(F, f"lp_pool{n}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        ),
        base=_lp_pool, doc="The p-norm of each window.",
    )  # fmt: skip
    functional(
        f"MaxUnpool{_n}d", "kernel_size: Size, stride: Size | None = None, padding: Size = 0",
        lambda self, input, indices, output_size=None, *, n=_n: getattr(F, f"max_unpool{n}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        ),
        prepare=_windows(_n), base=_max_unpool,
        doc="The inverse of MaxPool, zeros where nothing was the largest.",
    )  # fmt: skip


functional(
    "AvgPool1d",
    "kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode=False, "
    "count_include_pad=True",
    lambda self, input: F.avg_pool1d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
    ),
    prepare=_windows(1), base=_avg_pool, doc="The mean of each window.",
)  # fmt: skip
for _n in (2, 3):
    functional(
        f"AvgPool{_n}d",
        "kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode=False, "
        "count_include_pad=True, divisor_override: int | None = None",
        lambda self, input, *, n=_n: getattr(F, f"avg_pool{n}d")(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        ),
        prepare=_default_stride, base=_avg_pool, doc="The mean of each window.",
    )  # fmt: skip


def _fractional(self: Any) -> None:
    n = int(type(self).__name__[-2])
    self.register_buffer("_random_samples", self.__dict__.pop("_random_samples"))
    every: Any = lambda value: (value,) * n if isinstance(value, (int, float)) else tuple(value)
    size, ratio, self.kernel_size = self.output_size, self.output_ratio, every(self.kernel_size)
    if size is None and ratio is None:
        raise ValueError(
            f"FractionalMaxPool{n}d requires specifying either an output size, or a pooling ratio"
        )
    if size is not None and ratio is not None:
        raise ValueError("only one of output_size and output_ratio may be specified")
    self.output_size = None if size is None else every(size)
    self.output_ratio = None if ratio is None else every(ratio)
    if ratio is not None and not all(0 < r < 1 for r in every(ratio)):
        raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")


for _n in (2, 3):
    functional(
        f"FractionalMaxPool{_n}d",
        "kernel_size: Size, output_size: Size | None = None, output_ratio: Ratio | None = None, "
        "return_indices=False, _random_samples: Tensor | None = None",
        lambda self, input, *, n=_n: getattr(F, f"fractional_max_pool{n}d")(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        ),
        prepare=_fractional, doc="The largest of windows that random numbers place.",
    )  # fmt: skip

functional("Unfold", "kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1",
           lambda self, input: F.unfold(
               input, self.kernel_size, self.dilation, self.padding, self.stride),
           shown="kernel_size dilation padding stride", doc="Windows as columns.")  # fmt: skip
functional("Fold", "output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, "
           "stride: Size = 1",
           lambda self, input: F.fold(
               input, self.output_size, self.kernel_size, self.dilation, self.padding,
               self.stride),
           shown="output_size kernel_size dilation padding stride",
           doc="Columns added back into images.")  # fmt: skip

# ---- shape and images ----------------------------------------------------------------------------

functional("Flatten", "start_dim=1, end_dim=-1",
           lambda self, input: input.flatten(self.start_dim, self.end_dim),
           shown="start_dim end_dim", doc="Dims start_dim to end_dim joined.")  # fmt: skip


def _check_unflatten(self: Any) -> None:
    size = self.unflattened_size
    if isinstance(self.dim, str):
        raise NotImplementedError("Unflatten: named dims are not supported")
    for i, value in enumerate(size):
        if not isinstance(value, int):
            raise TypeError(
                f"unflattened_size must be tuple of ints, but found element of type "
                f"{type(value).__name__} at pos {i}"
            )


functional("Unflatten", "dim: int | str, unflattened_size: Any",
           lambda self, input: input.unflatten(self.dim, self.unflattened_size),
           shown="dim unflattened_size", prepare=_check_unflatten,
           doc="A dim split into several.")  # fmt: skip
functional("PixelShuffle", "upscale_factor: int",
           lambda self, input: F.pixel_shuffle(input, self.upscale_factor),
           shown="upscale_factor", doc="Channels become pixels.")  # fmt: skip
functional("PixelUnshuffle", "downscale_factor: int",
           lambda self, input: F.pixel_unshuffle(input, self.downscale_factor),
           shown="downscale_factor", doc="Pixels become channels.")  # fmt: skip
functional("ChannelShuffle", "groups: int",
           lambda self, input: F.channel_shuffle(input, self.groups),
           shown="groups", doc="Channels of groups interleaved.")  # fmt: skip


def _scales(self: Any) -> None:
    self.name = type(self).__name__
    scale = self.scale_factor
    if scale is not None:
        self.scale_factor = tuple(map(float, scale)) if isinstance(scale, tuple) else float(scale)


def _how(self: Any) -> str:
    by = "scale_factor" if self.scale_factor is not None else "size"
    return f"{by}={getattr(self, by)!r}, mode={self.mode!r}"


functional(
    "Upsample",
    "size: Size | None = None, scale_factor: Ratio | None = None, mode='nearest', "
    "align_corners: bool | None = None, recompute_scale_factor: bool | None = None",
    lambda self, input: F.interpolate(
        input, self.size, self.scale_factor, self.mode, self.align_corners,
        recompute_scale_factor=self.recompute_scale_factor,
    ),
    shown=_how, prepare=_scales, doc="Interpolated to a size or by a factor.",
)  # fmt: skip


def _fixed_mode(mode: str, align: bool | None) -> Callable[[Any], None]:
    def prepare(self: Any) -> None:
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align, None
        _scales(self)

    return prepare


for _name, _mode, _align in (
    ("UpsamplingNearest2d", "nearest", None), ("UpsamplingBilinear2d", "bilinear", True),
):  # fmt: skip
    functional(
        _name, "size: Size | None = None, scale_factor: Ratio | None = None",
        prepare=_fixed_mode(_mode, _align), base=STATELESS["Upsample"],
        doc=f"Upsample with mode {_mode!r}.",
    )  # fmt: skip

functional("LocalResponseNorm", "size: int, alpha=1e-4, beta=0.75, k=1.0",
           lambda self, input: F.local_response_norm(
               input, self.size, self.alpha, self.beta, self.k),
           shown=lambda self: f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}",
           doc="Divided by what the neighbouring channels have.")  # fmt: skip

# ---- distances -----------------------------------------------------------------------------------

functional("CosineSimilarity", "dim=1, eps=1e-8",
           lambda self, x1, x2: F.cosine_similarity(x1, x2, self.dim, self.eps),
           doc="The cosine of the angle along a dim.")  # fmt: skip


def _pairwise(self: Any) -> None:
    self.norm, self.__dict__["p"] = self.p, self.p


functional("PairwiseDistance", "p=2.0, eps=1e-6, keepdim=False",
           lambda self, x1, x2: F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim),
           prepare=_pairwise, doc="The p-norm of the difference.")  # fmt: skip
