"""Convolutions with batch norms and relu, and fake-quantized weights."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni, qat as nnqat
from tritorch.ao.nn.intrinsic.qat.modules._norms import WithNorm
from tritorch.ao.nn.qat.modules._checks import check_float, required
from tritorch.ao.nn.qat.modules.conv import float_conv
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F, init
from tritorch.nn.modules.conv import _ConvNd, repeated
from tritorch.nn.parameter import Parameter
from tritorch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = [
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "freeze_bn_stats",
    "update_bn_stats",
]  # fmt: skip

_BN_CLASS_MAP = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
# State dicts before version 2 have the norm's entries as the module's own.
_OLD_NAMES = {
    "bn.weight": "gamma", "bn.bias": "beta", "bn.running_mean": "running_mean",
    "bn.running_var": "running_var", "bn.num_batches_tracked": "num_batches_tracked",
}  # fmt: skip


class _ConvBnNd(_ConvNd, WithNorm):
    """A convolution and a batch norm, which quantization will fold into it."""

    _version = 2
    _n: ClassVar[int]
    _FLOAT_MODULE: ClassVar[Any]
    _FLOAT_CONV_MODULE: ClassVar[Any]
    _FLOAT_BN_MODULE: ClassVar[Any]
    _FLOAT_RELU_MODULE: ClassVar[Any] = None
    _FUSED_FLOAT_MODULE: ClassVar[Any] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, transposed: bool, output_padding: Any, groups: int, bias: Any,
        padding_mode: str, eps: float = 1e-5, momentum: float | None = 0.1,
        freeze_bn: bool = False, qconfig: Any = None, dim: int = 2,
    ) -> None:  # fmt: skip
        _ConvNd.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
            output_padding, groups, False, padding_mode,
        )  # fmt: skip
        self.qconfig = required(qconfig)
        self.bn = _BN_CLASS_MAP[dim](out_channels, eps, momentum, True, True)
        self.weight_fake_quant = self.qconfig.weight()
        if bias:
            self.bias = Parameter(torch.empty(out_channels))
        self._start(freeze_bn)
        self._enable_slow_path_for_better_numerical_stability = False

    def reset_bn_parameters(self) -> None:
        """Starts the norm anew with a random weight, and the convolution with a random bias."""
        super().reset_bn_parameters()
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def _forward(self, input: Tensor) -> Tensor:
        if self._enable_slow_path_for_better_numerical_stability:
            return self._forward_slow(input)
        return self._forward_approximate(input)

    def _scales(self) -> tuple[Tensor, Tensor, list[int], list[int]]:
        """The running deviation, the factor of folded weights, and the shapes of a number for each
        output channel beside weights and beside outputs."""
        if self.bn.running_var is None:
            raise AssertionError("self.bn.running_var must not be None")
        deviation = torch.sqrt(self.bn.running_var + self.bn.eps)
        rest = [1] * (len(self.weight.shape) - 2)
        return deviation, self.bn.weight / deviation, [-1, 1, *rest], [1, -1, *rest]

    def _forward_approximate(self, input: Tensor) -> Tensor:
        """The norm of a convolution whose weight is rounded as it will be after folding.

        The weight is scaled by running statistics, rounded, and its output scaled back."""
        _, factor, by_weight, by_output = self._scales()
        weight = self.weight_fake_quant(self.weight * factor.reshape(by_weight))
        if self.bias is not None:
            zeros = torch.zeros_like(self.bias, dtype=input.dtype)
        else:
            zeros = torch.zeros(self.out_channels, device=weight.device, dtype=input.dtype)
        out = self._conv_forward(input, weight, zeros) / factor.reshape(by_output)
        if self.bias is not None:
            out = out + self.bias.reshape(by_output)
        return self.bn(out)

    def _forward_slow(self, input: Tensor) -> Tensor:
        """The same without dividing by the norm's weight, which may be near 0.

        While training it takes two convolutions: one for the batch's statistics, and one with the
        rounded weight, which is corrected from running statistics to those of the batch."""
        deviation, factor, by_weight, by_output = self._scales()
        if self.bn.running_mean is None:
            raise AssertionError("self.bn.running_mean must not be None")
        zeros = torch.zeros(self.out_channels, device=self.weight.device, dtype=input.dtype)
        if self.bn.training:
            plain = self._conv_forward(input, self.weight, zeros)
            with torch.no_grad():  # running statistics alone are wanted
                biased = plain if self.bias is None else plain + self.bias.reshape(by_output)
                self.bn(biased)
            deviation, factor, _, _ = self._scales()
        weight = self.weight_fake_quant(self.weight * factor.reshape(by_weight))
        out = self._conv_forward(input, weight, zeros)
        if self.bn.training:
            dims = [0, *range(2, len(self.weight.shape))]
            mean = plain.mean(dims)
            variance = torch.square(plain - mean.reshape(by_output)).mean(dims)
            batch_deviation = torch.sqrt(variance + self.bn.eps)
            out = out * (deviation / batch_deviation).reshape(by_output)
            deviation = batch_deviation
        else:
            mean = self.bn.running_mean - (self.bias if self.bias is not None else 0)
        shift = self.bn.bias - self.bn.weight * mean / deviation
        out = out + shift.reshape(by_output)
        if self.bias is not None:  # a gradient of zeros, as the bias has without folding
            out = out + (self.bias - self.bias).reshape(by_output)
        return out

    def forward(self, input: Tensor) -> Tensor:
        """The norm of the convolution."""
        return self._forward(input)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        if local_metadata.get("version") in (None, 1):
            for name, old in _OLD_NAMES.items():
                if prefix + old in state_dict:
                    state_dict[prefix + name] = state_dict.pop(prefix + old)
                elif prefix + name not in state_dict and strict:
                    missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the parameters of a float one."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
            )
        check_float(mod)
        conv, bn = mod[0], mod[1]
        qat: Any = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding,
            conv.dilation, conv.groups, conv.bias is not None, conv.padding_mode, bn.eps,
            bn.momentum, False, mod.qconfig,
        )  # fmt: skip
        return qat._take(conv, bn)

    def to_float(self) -> Any:
        """The convolution into which the norm is folded, with its relu if there is one."""
        conv = float_conv(self)
        self._check_statistics()
        conv.weight, conv.bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, self.bn.running_mean, self.bn.running_var, self.bn.eps,
            self.bn.weight, self.bn.bias,
        )  # fmt: skip
        if self._FLOAT_RELU_MODULE:
            conv = self._FUSED_FLOAT_MODULE(conv, self._FLOAT_RELU_MODULE())
        return conv.train(self.training)


class _ConvBn(_ConvBnNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None,
        padding_mode: str = "zeros", eps: float = 1e-5, momentum: float | None = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        _ConvBnNd.__init__(
            self, in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n),
            repeated(padding, n), repeated(dilation, n), False, (0,) * n, groups, bias,
            padding_mode, eps, momentum, freeze_bn, qconfig, dim=n,
        )  # fmt: skip


class _WithReLU:
    """The settings and the constructor of convolutions with relu and without a norm."""

    _FLOAT_BN_MODULE: ClassVar[Any] = None
    _FLOAT_RELU_MODULE: ClassVar[Any] = nn.ReLU

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding,  # type: ignore[call-arg]
            dilation=dilation, groups=groups, bias=bias, padding_mode=padding_mode,
            qconfig=qconfig,
        )  # fmt: skip
        self.weight_fake_quant = required(qconfig).weight()

    def forward(self: Any, input: Tensor) -> Tensor:
        """The relu of the convolution."""
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))


class ConvBn1d(_ConvBn, nn.Conv1d):
    """A convolution of sequences and a batch norm, trained as they will be quantized together."""

    _FLOAT_BN_MODULE: ClassVar[Any] = nn.BatchNorm1d
    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBn1d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv1d


class ConvBnReLU1d(ConvBn1d):
    """A convolution of sequences, a batch norm and relu, trained to be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBnReLU1d
    _FLOAT_RELU_MODULE: ClassVar[Any] = nn.ReLU
    _FUSED_FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU1d

    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm of the convolution."""
        return F.relu(self._forward(input))


class ConvReLU1d(_WithReLU, nnqat.Conv1d, nni._FusedModule):
    """A convolution of sequences and relu, trained as they will be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU1d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv1d


class ConvBn2d(_ConvBn, nn.Conv2d):
    """A convolution of images and a batch norm, trained as they will be quantized together."""

    _FLOAT_BN_MODULE: ClassVar[Any] = nn.BatchNorm2d
    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBn2d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv2d


class ConvBnReLU2d(ConvBn2d):
    """A convolution of images, a batch norm and relu, trained to be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBnReLU2d
    _FLOAT_RELU_MODULE: ClassVar[Any] = nn.ReLU
    _FUSED_FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU2d

    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm of the convolution."""
        return F.relu(self._forward(input))


class ConvReLU2d(_WithReLU, nnqat.Conv2d, nni._FusedModule):
    """A convolution of images and relu, trained as they will be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU2d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv2d


class ConvBn3d(_ConvBn, nn.Conv3d):
    """A convolution of volumes and a batch norm, trained as they will be quantized together."""

    _FLOAT_BN_MODULE: ClassVar[Any] = nn.BatchNorm3d
    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBn3d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv3d


class ConvBnReLU3d(ConvBn3d):
    """A convolution of volumes, a batch norm and relu, trained to be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvBnReLU3d
    _FLOAT_RELU_MODULE: ClassVar[Any] = nn.ReLU
    _FUSED_FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU3d

    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm of the convolution."""
        return F.relu(self._forward(input))


class ConvReLU3d(_WithReLU, nnqat.Conv3d, nni._FusedModule):
    """A convolution of volumes and relu, trained as they will be quantized together."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU3d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv3d


_WITH_NORMS = (ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d, ConvBn1d, ConvBn2d, ConvBn3d)


def update_bn_stats(mod: Any) -> None:
    """Unfreezes the norm of a fused convolution; for `model.apply`."""
    if type(mod) in _WITH_NORMS:
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """Freezes the norm of a fused convolution; for `model.apply`."""
    if type(mod) in _WITH_NORMS:
        mod.freeze_bn_stats()
