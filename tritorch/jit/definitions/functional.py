"""`torch.nn.functional` in TorchScript, where a function is no single operator.

The compiler reads this source; nothing imports it.  `f__0`, `f__1` are overloads; `f_with_indices`
is
`f` with `return_indices=True`.
"""

# ruff: noqa: F821, UP006, UP035, UP045
import math
from typing import List, Optional, Tuple

# ---- activations ---------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        result = torch.hardtanh_(input, min_val, max_val)
    else:
        result = torch.hardtanh(input, min_val, max_val)
    return result


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.threshold_(input, threshold, value)
    return torch.threshold(input, threshold, value)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.elu_(input, alpha)
    return torch.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.selu_(input)
    return torch.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.celu_(input, alpha)
    return torch.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.leaky_relu_(input, negative_slope)
    return torch.leaky_relu(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    if inplace:
        return torch.rrelu_(input, lower, upper, training)
    return torch.rrelu(input, lower, upper, training)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.silu_(input)
    return torch.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.mish_(input)
    return torch.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.hardswish_(input)
    return torch.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.hardsigmoid_(input)
    return torch.hardsigmoid(input)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def logsigmoid(input: Tensor) -> Tensor:
    return torch.log_sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def _softmax_dim(dims: int) -> int:
    if dims == 0 or dims == 1 or dims == 3:
        return 0
    return 1


def softmax(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    if dtype is None:
        return input.softmax(dim)
    return input.softmax(dim, dtype=dtype)


def softmin(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    if dtype is None:
        return (-input).softmax(dim)
    return (-input).softmax(dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    if dtype is None:
        return input.log_softmax(dim)
    return input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    gumbels = (
        -torch.empty_like(logits, memory_format=torch.legacy_contiguous_format).exponential_().log()
    )
    gumbels = (logits + gumbels) / tau
    soft = gumbels.softmax(dim)
    if hard:
        index = soft.max(dim, keepdim=True)[1]
        one = torch.zeros_like(logits).scatter_(dim, index, 1.0)
        result = one - soft.detach() + soft
    else:
        result = soft
    return result


# ---- dropout -------------------------------------------------------------------------------------


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_probability(p)
    if inplace:
        result = torch.dropout_(input, p, training)
    else:
        result = torch.dropout(input, p, training)
    return result


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    _check_probability(p)
    if inplace:
        return torch.alpha_dropout_(input, p, training)
    return torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    _check_probability(p)
    if inplace:
        return torch.feature_alpha_dropout_(input, p, training)
    return torch.feature_alpha_dropout(input, p, training)


def _feature_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p)
    if inplace:
        return torch.feature_dropout_(input, p, training)
    return torch.feature_dropout(input, p, training)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if input.dim() == 2:
        return _feature_dropout(input.unsqueeze(0), p, training, False).squeeze(0)
    return _feature_dropout(input, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return _feature_dropout(input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return _feature_dropout(input, p, training, inplace)


# ---- pooling -------------------------------------------------------------------------------------


def max_pool1d(
    input: Tensor, kernel_size: BroadcastingList1[int],
    stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
    dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: BroadcastingList1[int],
    stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
    dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor, kernel_size: BroadcastingList2[int],
    stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor, kernel_size: BroadcastingList2[int],
    stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor, kernel_size: BroadcastingList3[int],
    stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
    dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor, kernel_size: BroadcastingList3[int],
    stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
    dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def adaptive_max_pool1d(
    input: Tensor, output_size: BroadcastingList1[int], return_indices: bool = False
) -> Tensor:
    return torch.adaptive_max_pool1d(input, output_size)[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: BroadcastingList1[int], return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool1d(input, output_size)


def _sizes(wanted: List[Optional[int]], shape: List[int]) -> List[int]:
    sizes: List[int] = []
    for at, size in enumerate(wanted):
        if size is None:
            sizes.append(shape[len(shape) - len(wanted) + at])
        else:
            sizes.append(size)
    return sizes


def adaptive_max_pool2d(
    input: Tensor, output_size: BroadcastingList2[Optional[int]], return_indices: bool = False
) -> Tensor:
    return torch.adaptive_max_pool2d(input, _sizes(output_size, input.size()))[0]


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: BroadcastingList2[Optional[int]], return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool2d(input, _sizes(output_size, input.size()))


def adaptive_max_pool3d(
    input: Tensor, output_size: BroadcastingList3[Optional[int]], return_indices: bool = False
) -> Tensor:
    return torch.adaptive_max_pool3d(input, _sizes(output_size, input.size()))[0]


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: BroadcastingList3[Optional[int]], return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool3d(input, _sizes(output_size, input.size()))


def adaptive_avg_pool1d(input: Tensor, output_size: BroadcastingList1[int]) -> Tensor:
    return torch.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[Optional[int]]) -> Tensor:
    return torch.adaptive_avg_pool2d(input, _sizes(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: BroadcastingList3[Optional[int]]) -> Tensor:
    return torch.adaptive_avg_pool3d(input, _sizes(output_size, input.size()))


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int,
    stride: Optional[BroadcastingList1[int]] = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    out = torch.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kernel_size).pow(1.0 / norm_type)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: BroadcastingList2[int],
    stride: Optional[BroadcastingList2[int]] = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    out = torch.avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    count = kernel_size[0] * kernel_size[1]
    return (torch.sign(out) * relu(torch.abs(out))).mul(count).pow(1.0 / norm_type)


# ---- normalisation, padding, shapes --------------------------------------------------------------


def batch_norm(
    input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
    weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if training:
        sizes = input.size()
        count = sizes[0]
        for at in range(len(sizes) - 2):
            count *= sizes[at + 2]
        if count == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {sizes}"
            )
    return torch.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def instance_norm(
    input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
    weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return torch.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def group_norm(
    input: Tensor, num_groups: int, weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    squares = input.mul(input).unsqueeze(1)
    if input.dim() == 3:
        squares = pad(squares, [0, 0, size // 2, (size - 1) // 2])
        means = torch.avg_pool2d(squares, [size, 1], [1, 1]).squeeze(1)
    else:
        sizes = input.size()
        squares = squares.view(sizes[0], 1, sizes[1], sizes[2], -1)
        squares = pad(squares, [0, 0, 0, 0, size // 2, (size - 1) // 2])
        means = torch.avg_pool3d(squares, [size, 1, 1], [1, 1, 1]).squeeze(1)
        means = means.view(sizes)
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None
) -> Tensor:
    norms = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / norms
    return torch.div(input, norms, out=out)


def pad(
    input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None
) -> Tensor:
    return torch.pad(input, pad, mode, value)


def unfold(
    input: Tensor, kernel_size: BroadcastingList2[int], dilation: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0, stride: BroadcastingList2[int] = 1,
) -> Tensor:  # fmt: skip
    return torch.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor, output_size: BroadcastingList2[int], kernel_size: BroadcastingList2[int],
    dilation: BroadcastingList2[int] = 1, padding: BroadcastingList2[int] = 0,
    stride: BroadcastingList2[int] = 1,
) -> Tensor:  # fmt: skip
    return torch.col2im(input, output_size, kernel_size, dilation, padding, stride)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: Optional[int] = None,
    max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    if padding_idx is not None:
        if padding_idx > 0:
            assert padding_idx < weight.size(0), "Padding_idx must be within num_embeddings"
        elif padding_idx < 0:
            assert padding_idx >= -weight.size(0), "Padding_idx must be within num_embeddings"
            padding_idx = weight.size(0) + padding_idx
    else:
        padding_idx = -1
    if max_norm is not None:
        input = input.contiguous()
        torch.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None,
    max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    mode: str = "mean", sparse: bool = False, per_sample_weights: Optional[Tensor] = None,
    include_last_offset: bool = False, padding_idx: Optional[int] = None,
) -> Tensor:  # fmt: skip
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        offsets = torch.arange(
            0, input.numel(), input.size(1), dtype=input.dtype, device=input.device
        )
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if mode == "sum":
        how = 0
    elif mode == "mean":
        how = 1
    elif mode == "max":
        how = 2
    else:
        raise ValueError("mode has to be one of sum, mean or max")
    if max_norm is not None:
        torch.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    result, _, _, _ = torch.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, how, sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip
    return result


# ---- resizing ------------------------------------------------------------------------------------


def _align(align_corners: Optional[bool]) -> bool:
    if align_corners is None:
        return False
    return align_corners


def _resize(
    input: Tensor, size: Optional[List[int]], scale_factor: Optional[List[float]], mode: str,
    align_corners: Optional[bool], recompute_scale_factor: Optional[bool], antialias: bool,
) -> Tensor:  # fmt: skip
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    dims = input.dim() - 2
    output_size = size
    factors = scale_factor
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor is not None and recompute_scale_factor and factors is not None:
        found: List[int] = []
        for at in range(dims):
            found.append(math.floor(float(input.size(at + 2)) * factors[at]))
        output_size = found
        factors = None
    if input.dim() == 3 and mode == "nearest":
        return torch.upsample_nearest1d(input, output_size, factors)
    if input.dim() == 4 and mode == "nearest":
        return torch.upsample_nearest2d(input, output_size, factors)
    if input.dim() == 5 and mode == "nearest":
        return torch.upsample_nearest3d(input, output_size, factors)
    if input.dim() == 3 and mode == "nearest-exact":
        return torch._upsample_nearest_exact1d(input, output_size, factors)
    if input.dim() == 4 and mode == "nearest-exact":
        return torch._upsample_nearest_exact2d(input, output_size, factors)
    if input.dim() == 5 and mode == "nearest-exact":
        return torch._upsample_nearest_exact3d(input, output_size, factors)
    if mode == "area":
        if output_size is None:
            assert factors is not None
            sizes: List[int] = []
            for at in range(dims):
                sizes.append(math.floor(float(input.size(at + 2)) * factors[at]))
            output_size = sizes
        if input.dim() == 3:
            return torch.adaptive_avg_pool1d(input, output_size)
        if input.dim() == 4:
            return torch.adaptive_avg_pool2d(input, output_size)
        return torch.adaptive_avg_pool3d(input, output_size)
    if input.dim() == 3 and mode == "linear":
        return torch.upsample_linear1d(input, output_size, _align(align_corners), factors)
    if input.dim() == 4 and mode == "bilinear":
        if antialias:
            return torch._upsample_bilinear2d_aa(input, output_size, _align(align_corners), factors)
        return torch.upsample_bilinear2d(input, output_size, _align(align_corners), factors)
    if input.dim() == 5 and mode == "trilinear":
        return torch.upsample_trilinear3d(input, output_size, _align(align_corners), factors)
    if input.dim() == 4 and mode == "bicubic":
        if antialias:
            return torch._upsample_bicubic2d_aa(input, output_size, _align(align_corners), factors)
        return torch.upsample_bicubic2d(input, output_size, _align(align_corners), factors)
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the "
        f"modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got "
        f"{mode})"
    )


def _each_dim(value: Optional[int], dims: int) -> Optional[List[int]]:
    if value is None:
        return None
    return [value for _ in range(dims)]


def _each_factor(value: Optional[float], dims: int) -> Optional[List[float]]:
    if value is None:
        return None
    return [value for _ in range(dims)]


def interpolate__0(
    input: Tensor, size: Optional[int] = None, scale_factor: Optional[List[float]] = None,
    mode: str = "nearest", align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    return _resize(
        input, _each_dim(size, input.dim() - 2), scale_factor, mode, align_corners,
        recompute_scale_factor, antialias,
    )  # fmt: skip


def interpolate__1(
    input: Tensor, size: Optional[List[int]] = None, scale_factor: Optional[List[float]] = None,
    mode: str = "nearest", align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    return _resize(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def interpolate__2(
    input: Tensor, size: Optional[int] = None, scale_factor: Optional[float] = None,
    mode: str = "nearest", align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    return _resize(
        input, _each_dim(size, input.dim() - 2), _each_factor(scale_factor, input.dim() - 2), mode,
        align_corners, recompute_scale_factor, antialias,
    )  # fmt: skip


def interpolate__3(
    input: Tensor, size: Optional[List[int]] = None, scale_factor: Optional[float] = None,
    mode: str = "nearest", align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    return _resize(
        input, size, _each_factor(scale_factor, input.dim() - 2), mode, align_corners,
        recompute_scale_factor, antialias,
    )  # fmt: skip


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: Optional[bool] = None,
) -> Tensor:  # fmt: skip
    if mode == "bilinear":
        how = 0
    elif mode == "nearest":
        how = 1
    elif mode == "bicubic":
        how = 2
    else:
        raise ValueError(f"nn.functional.grid_sample(): unknown mode '{mode}'")
    if padding_mode == "zeros":
        edge = 0
    elif padding_mode == "border":
        edge = 1
    else:
        edge = 2
    return torch.grid_sampler(input, grid, how, edge, _align(align_corners))


def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    return torch.affine_grid_generator(theta, size, _align(align_corners))


# ---- losses --------------------------------------------------------------------------------------


def _reduction(reduction: str) -> int:
    if reduction == "none":  # noqa: SIM116 - TorchScript has no dictionaries of constants
        return 0
    elif reduction == "mean":
        return 1
    elif reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _old_reduction(size_average: Optional[bool], reduce: Optional[bool], reduction: str) -> int:
    if size_average is None and reduce is None:
        return _reduction(reduction)
    averages = True if size_average is None else size_average
    reduces = True if reduce is None else reduce
    if not reduces:
        return 0
    return 1 if averages else 2


def mse_loss(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None,
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    a, b = torch.broadcast_tensors([input, target])
    if weight is not None:
        losses = torch.pow(a - b, 2) * weight
        if how == 0:
            return losses
        elif how == 2:
            return torch.sum(losses)
        return torch.sum(losses) / torch.sum(weight)
    return torch.mse_loss(a, b, how)


def l1_loss(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None,
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    a, b = torch.broadcast_tensors([input, target])
    if weight is not None:
        losses = torch.abs(a - b) * weight
        if how == 0:
            return losses
        elif how == 2:
            return torch.sum(losses)
        return torch.sum(losses) / torch.sum(weight)
    return torch.l1_loss(a, b, how)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    a, b = torch.broadcast_tensors([input, target])
    if beta == 0.0:
        return torch.l1_loss(a, b, how)
    return torch.smooth_l1_loss(a, b, how, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Optional[Tensor] = None,
) -> Tensor:  # fmt: skip
    a, b = torch.broadcast_tensors([input, target])
    if weight is None:
        return torch.huber_loss(a, b, _reduction(reduction), delta)
    losses = torch.huber_loss(a, b, 0, delta) * weight
    if reduction == "none":
        return losses
    elif reduction == "sum":
        return torch.sum(losses)
    return torch.sum(losses) / torch.sum(weight)


def nll_loss(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.nll_loss_nd(input, target, weight, how, ignore_index)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.cross_entropy_loss(input, target, weight, how, ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    return torch.binary_cross_entropy(input, target, weight, how)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
    pos_weight: Optional[Tensor] = None,
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, how)


def kl_div(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    if reduction == "batchmean":
        total = torch.kl_div(input, target, 2, log_target=log_target)
        if input.dim() != 0:
            return total / input.size(0)
        return total
    how = _old_reduction(size_average, reduce, reduction)
    return torch.kl_div(input, target, how, log_target=log_target)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: Optional[bool] = None, eps: float = 1e-8, reduce: Optional[bool] = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.poisson_nll_loss(input, target, log_input, full, eps, how)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.hinge_embedding_loss(input, target, margin, how)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.soft_margin_loss(input, target, how)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.multilabel_margin_loss(input, target, how)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.cosine_embedding_loss(input1, input2, target, margin, how)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.margin_ranking_loss(input1, input2, target, margin, how)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, how)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0,
    weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
    reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    return torch.multi_margin_loss(input, target, p, margin, weight, how)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = _old_reduction(size_average, reduce, reduction)
    losses = -(target * torch.log_sigmoid(input) + (1 - target) * torch.log_sigmoid(-input))
    if weight is not None:
        losses = losses * weight
    means = losses.sum(dim=-1) / input.size(-1)
    if how == 0:
        return means
    elif how == 1:
        return means.mean()
    return means.sum()


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    if torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    clamped = var.clone()
    clamped.detach().clamp_(min=eps)
    losses = 0.5 * (torch.log(clamped) + (input - target) ** 2 / clamped)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    if reduction == "mean":
        return losses.mean()
    elif reduction == "sum":
        return losses.sum()
    return losses


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    return torch.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction),
        zero_infinity,
    )  # fmt: skip


# ---- attention -----------------------------------------------------------------------------------


def _as_added_mask(mask: Optional[Tensor], like: Tensor) -> Optional[Tensor]:
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, float("-inf"))
    return mask


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor],
    bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Optional[Tensor], training: bool = True,
    key_padding_mask: Optional[Tensor] = None, need_weights: bool = True,
    attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None,
    v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None,
    static_v: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> Tuple[Tensor, Optional[Tensor]]:  # fmt: skip
    is_batched = query.dim() == 3
    if not is_batched:
        query = query.unsqueeze(1)
        key = key.unsqueeze(1)
        value = value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.size()
    assert width == embed_dim_to_check, (
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
    )
    head = width // num_heads
    attn_mask = _as_added_mask(attn_mask, query)
    key_padding_mask = _as_added_mask(key_padding_mask, query)
    if in_proj_bias is None:
        q_bias: Optional[Tensor] = None
        k_bias: Optional[Tensor] = None
        v_bias: Optional[Tensor] = None
    else:
        q_bias, k_bias, v_bias = in_proj_bias.chunk(3)
    if use_separate_proj_weight:
        assert q_proj_weight is not None and k_proj_weight is not None and v_proj_weight is not None
        q = torch.linear(query, q_proj_weight, q_bias)
        k = torch.linear(key, k_proj_weight, k_bias)
        v = torch.linear(value, v_proj_weight, v_bias)
    else:
        assert in_proj_weight is not None
        q_weight, k_weight, v_weight = in_proj_weight.chunk(3)
        q = torch.linear(query, q_weight, q_bias)
        k = torch.linear(key, k_weight, k_bias)
        v = torch.linear(value, v_weight, v_bias)
    if attn_mask is not None:
        if attn_mask.dim() == 2:
            attn_mask = attn_mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        k = torch.cat([k, bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, bias_v.repeat(1, batch, 1)])
        if attn_mask is not None:
            attn_mask = pad(attn_mask, [0, 1])
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, [0, 1])
    q = q.contiguous().view(length, batch * num_heads, head).transpose(0, 1)
    if static_k is None:
        k = k.contiguous().view(k.size(0), batch * num_heads, head).transpose(0, 1)
    else:
        k = static_k
    if static_v is None:
        v = v.contiguous().view(v.size(0), batch * num_heads, head).transpose(0, 1)
    else:
        v = static_v
    if add_zero_attn:
        zeros = torch.zeros([batch * num_heads, 1, head], dtype=k.dtype, device=k.device)
        k = torch.cat([k, zeros], dim=1)
        v = torch.cat([v, zeros], dim=1)
        if attn_mask is not None:
            attn_mask = pad(attn_mask, [0, 1])
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, [0, 1])
    source = k.size(1)
    if key_padding_mask is not None:
        keys = key_padding_mask.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
        keys = keys.reshape(batch * num_heads, 1, source)
        if attn_mask is None:
            attn_mask = keys
        else:
            attn_mask = attn_mask + keys
    if not training:
        dropout_p = 0.0
    if need_weights:
        scaled = q * math.sqrt(1.0 / float(head))
        if attn_mask is not None:
            weights = torch.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
        else:
            weights = torch.bmm(scaled, k.transpose(-2, -1))
        weights = weights.softmax(-1)
        if dropout_p > 0.0:
            weights = dropout(weights, dropout_p)
        output = torch.bmm(weights, v)
        output = output.transpose(0, 1).contiguous().view(length * batch, width)
        output = torch.linear(output, out_proj_weight, out_proj_bias)
        output = output.view(length, batch, output.size(1))
        weights = weights.view(batch, num_heads, length, source)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not is_batched:
            output = output.squeeze(1)
            weights = weights.squeeze(0)
        return output, weights
    if attn_mask is not None:
        if attn_mask.size(0) == 1 and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(batch, num_heads, -1, source)
    q = q.view(batch, num_heads, length, head)
    k = k.view(batch, num_heads, source, head)
    v = v.view(batch, num_heads, source, head)
    output = torch.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    output = output.permute(2, 0, 1, 3).contiguous().view(batch * length, width)
    output = torch.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(length, batch, output.size(1))
    if not is_batched:
        output = output.squeeze(1)
    return output, None
