"""Convolution and transposed convolution, of one to three dims."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults, published
from tritorch.core.dims import several
from tritorch.core.naming import qualified
from tritorch.core.promotion import scalar_name
from tritorch.core.published import FUNCTIONAL, PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import cpp_name
from tritorch.ops.record.sizes import convolution_flops, convolved

_PARAMS = "stride padding dilation transposed output_padding groups"


def convolution_result(
    x: MetaArray, w: MetaArray, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> MetaArray:  # fmt: skip
    """The result of a convolution, or of its transpose."""
    spatial = _spatial(x, w, stride, padding, dilation, transposed, output_padding)
    shape = (x.shape[0], w.shape[1] * groups if transposed else w.shape[0], *spatial)
    return x.new(shape)


def _spatial(
    x: Any, w: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any
) -> list[Any]:
    """The sizes of a result behind its channels."""
    spatial = []
    for i, n in enumerate(x.shape[2:]):
        reach = dilation[i] * (w.shape[2 + i] - 1)
        if transposed:
            spatial.append((n - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1)
        else:
            spatial.append((n + 2 * padding[i] - reach - 1) // stride[i] + 1)
    return spatial


# The three kernels of convolution: forward, input's gradient, weight's gradient.  Each is linear in
# both operands, and the gradients of one are the other two.
_convolution = Operator(
    "convolution",
    "x w b",
    _PARAMS,
    cpu="conv.convolution",
    fuses="convolution",
    grad=(
        lambda g, x, w, stride, padding, dilation, transposed, output_padding, groups: _input.call(
            (g, w), (tuple(x.shape), stride, padding, dilation, transposed, output_padding, groups)
        ),
        lambda g, x, w, stride, padding, dilation, transposed, output_padding, groups: _weight.call(
            (g, x), (tuple(w.shape), stride, padding, dilation, transposed, output_padding, groups)
        ),
        lambda g: g.sum([i for i in range(g.ndim) if i != 1]),
    ),
    layout="any format x w",
    rules=Rules(
        infer=convolution_result,
        axes=lambda x, w, b, *rest: "bc{0},{1},o->bo{0}".format(
            *convolved(len(x.shape) - 2, rest[3])
        ),
        batch="convolution",
        cost=lambda outs, x, w, b, *rest: convolution_flops(rest[3], x, outs[0], w.shape),
    ),
)
_input: Operator = Operator(
    "convolution_input",
    "y w",
    "shape " + _PARAMS,
    schema="(Tensor y, Tensor w, SymInt[] shape, int[] stride, int[] padding, int[] "
    "dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    kind="internal",
    cpu=lambda y, w, shape, *rest: backend("cpu", "conv").convolution_input(y, shape, w, *rest),
    gpu=lambda y, w, shape, *rest: backend("gpu", "conv").convolution_input(y, shape, w, *rest),
    grad=(
        lambda g, w, stride, padding, dilation, transposed, output_padding, groups: (
            _convolution.call(
                (g, w, None), (stride, padding, dilation, transposed, output_padding, groups)
            )
        ),
        lambda g, y, w, stride, padding, dilation, transposed, output_padding, groups: _weight.call(
            (y, g), (tuple(w.shape), stride, padding, dilation, transposed, output_padding, groups)
        ),
    ),
    layout="any format",
    rules=Rules(
        infer=lambda y, w, shape, *rest: y.new(shape),
        axes=lambda y, other, shape, *rest: "bo{0},{1}->bc{0}".format(
            *convolved(len(y.shape) - 2, rest[3])
        ),
        batch="convolution_input",
        cost=lambda outs, y, w, shape, *rest: convolution_flops(rest[3], outs[0], y, w.shape),
    ),
)
_weight: Operator = Operator(
    "convolution_weight",
    "y x",
    "shape " + _PARAMS,
    schema="(Tensor y, Tensor x, SymInt[] shape, int[] stride, int[] padding, int[] "
    "dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    kind="internal",
    cpu=lambda y, x, shape, *rest: backend("cpu", "conv").convolution_weight(y, x, shape, *rest),
    gpu=lambda y, x, shape, *rest: backend("gpu", "conv").convolution_weight(y, x, shape, *rest),
    grad=(
        lambda g, x, stride, padding, dilation, transposed, output_padding, groups: (
            _convolution.call(
                (x, g, None), (stride, padding, dilation, transposed, output_padding, groups)
            )
        ),
        lambda g, y, x, stride, padding, dilation, transposed, output_padding, groups: _input.call(
            (y, g), (tuple(x.shape), stride, padding, dilation, transposed, output_padding, groups)
        ),
    ),
    layout="any format",
    rules=Rules(
        infer=lambda y, x, shape, *rest: y.new(shape),
        axes=lambda y, other, shape, *rest: "bo{0},bc{0}->{1}".format(
            *convolved(len(y.shape) - 2, rest[3])
        ),
        batch="convolution_weight",
        cost=lambda outs, y, x, shape, *rest: convolution_flops(rest[3], x, y, shape),
    ),
)


def _tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    values = several(value, n) or tuple(int(v) for v in value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the "
            f"convolution dimensions, but got {name}={list(values)}"
        )
    return values


def _check(x: Tensor, w: Tensor, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
           groups: int, n: int, output_padding: Any = ()) -> None:  # fmt: skip
    for value in stride:
        if value <= 0:
            raise RuntimeError("non-positive stride is not supported")
    for value in padding:
        if value < 0:
            raise RuntimeError("negative padding is not supported")
    for value in dilation:
        if value <= 0:
            raise RuntimeError("dilation should be greater than zero")
    for value in output_padding:
        if value < 0:
            raise RuntimeError("negative output_padding is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if w.ndim != n + 2:
        raise RuntimeError(
            "weight should have at least three dimensions"
            if w.ndim < 3
            else f"Expected {w.ndim - 1}D (unbatched) or {w.ndim}D (batched) input to "
            f"conv{n}d, but got input of size: {list(x.shape)}"
        )
    if x.dtype is not w.dtype and x.numel():  # PyTorch never reads an empty batch's weight
        raise RuntimeError(
            f"Input type ({_type(x)}) and weight type ({_type(w)}) should be the same"
        )
    if b is not None and b.dtype is not x.dtype:
        given, other = (_type(x), _type(b)) if x.numel() else (cpp_name(x.dtype), cpp_name(b.dtype))
        raise RuntimeError(f"Input type ({given}) and bias type ({other}) should be the same")
    channels = x.shape[1]
    if w.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
            f"but got weight of size {list(w.shape)} instead"
        )
    if not transposed:
        if w.shape[0] % groups:
            raise RuntimeError(
                f"Given groups={groups}, expected weight to be divisible by {groups} at dimension "
                f"0, but got weight of size [{list(w.shape)}] instead"
            )
        if w.shape[1] * groups != channels:
            raise RuntimeError(
                f"Given groups={groups}, weight of size {list(w.shape)}, expected "
                f"input{list(x.shape)} to have {w.shape[1] * groups} channels, but got {channels} "
                "channels instead"
            )
        if b is not None and (b.ndim != 1 or b.shape[0] != w.shape[0]):
            raise RuntimeError(
                f"Given weight of size {list(w.shape)}, expected bias to be 1-dimensional with "
                f"{w.shape[0]} elements, but got bias of size {list(b.shape)} instead"
            )
        padded = [s + 2 * p for s, p in zip(x.shape[2:], padding)]
        kernel = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation)]
        if any(k > s for k, s in zip(kernel, padded)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). "
                f"Kernel size: ({' x '.join(map(str, kernel))}). Kernel size can't be greater "
                "than actual input size"
            )
    else:
        if w.shape[0] != channels:
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(w.shape)}, expected input"
                f"{list(x.shape)} to have {w.shape[0]} channels, but got {channels} channels "
                f"instead"
            )
        if b is not None and (b.ndim != 1 or b.shape[0] != w.shape[1] * groups):
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(w.shape)}, expected bias to be "
                f"1-dimensional with {w.shape[1] * groups} elements, but got bias of size "
                f"{list(b.shape)} instead"
            )
    flat = [1] if n == 1 else []  # PyTorch makes images of it
    if 0 in w.shape[2:]:
        sides = [*flat, *w.shape[2:]]
        raise RuntimeError(
            "kernel size should be greater than zero, but got"
            + (
                f": {' x '.join(map(str, sides))} (TxHxW)"
                if n == 3
                else f" kernel_height: {sides[0]} kernel_width: {sides[1]}"
            )
        )
    if 0 in x.shape[2:] and x.shape[0] and channels:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{[*x.shape[:2], *flat, *x.shape[2:]]}"
        )
    if transposed:
        out = _spatial(x, w, stride, padding, dilation, True, output_padding)
        if any(m < 1 for m in out):
            shown = [" x ".join(map(str, [*flat, *sides])) for sides in (x.shape[2:], out)]
            raise RuntimeError(
                f"Given input size per channel: ({shown[0]}). Calculated output size per channel: "
                f"({shown[1]}). Output size is too small"
            )


def _type(x: Tensor) -> str:
    return qualified(f"{'cuda.' if x.is_cuda else ''}{scalar_name(x.dtype)}Tensor")


def _run(n: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
         transposed: bool, output_padding: Any, groups: int, name: str) -> Tensor:  # fmt: skip
    require_tensor(input, name, "input", 1)
    require_tensor(weight, name, "weight", 2)
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}"
        )
    x = input if input.ndim == n + 2 else input.unsqueeze(0)
    stride = _tuple(stride, n, "stride") if stride != () else (1,) * n
    dilation = _tuple(dilation, n, "dilation")
    output_padding = _tuple(output_padding, n, "output_padding")
    if isinstance(padding, str):
        x, padding = _named_padding(x, weight, padding, stride, dilation, n)
    else:
        padding = _tuple(padding, n, "padding")
    _check(x, weight, bias, stride, padding, dilation, transposed, groups, n, output_padding)
    if weight.dtype is not x.dtype:
        weight = weight.to(x.dtype)
    params = (stride, padding, dilation, transposed, output_padding, groups)
    out = _convolution.call((x, weight, bias), params)
    return out if input.ndim == n + 2 else out.squeeze(0)


def _named_padding(x: Tensor, w: Tensor, padding: str, stride: Any, dilation: Any, n: int) -> Any:
    if padding == "valid":
        return x, (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'. Expected one of: 'valid', 'same'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(w.shape[2:], dilation)]
    both = tuple(t // 2 for t in total)
    if any(t % 2 for t in total):  # the odd one goes after the end
        defaults.warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created",
            stacklevel=5,
        )
        extra = [v for t in reversed(total) for v in (0, t % 2)]
        x = published.functional.pad(x, extra)
    return x, both


def _forward(n: int) -> Any:
    def function(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
        return _run(
            n, input, weight, bias, stride, padding, dilation, False, 0, groups, f"conv{n}d"
        )

    function.__name__ = f"conv{n}d"
    function.__doc__ = f"Convolution over {n} dims."
    return function


def _transposed(n: int) -> Any:
    def function(
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        return _run(
            n,
            input,
            weight,
            bias,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            f"conv_transpose{n}d",
        )

    function.__name__ = f"conv_transpose{n}d"
    function.__doc__ = f"Transposed convolution over {n} dims."
    return function


for _n in (1, 2, 3):
    for _make in (_forward, _transposed):
        _function = _make(_n)
        autocast("lower")(_function)
        FUNCTIONAL[_function.__name__] = PUBLIC[_function.__name__] = _function


def convolution(input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Tensor:  # fmt: skip
    """Convolution, transposed or not, of any number of dims."""
    return _run(weight.ndim - 2, input, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups, "convolution")  # fmt: skip


PUBLIC["convolution"] = convolution


@autocast("lower")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of (time, batch, channels) by weights (time, in, out)."""
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels"
        )
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    out = published.functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return out.permute(2, 0, 1)


FUNCTIONAL["conv_tbc"] = PUBLIC["conv_tbc"] = conv_tbc
