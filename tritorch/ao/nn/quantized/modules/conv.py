"""Convolutions with quantized weights."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni
from tritorch.ao.nn.intrinsic import qat as nniqat
from tritorch.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    load_qparams,
    observed_weight,
    save_qparams,
    set_qparams,
)
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.modules.conv import repeated
from tritorch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

_SUPPORTED_PADDING = {"zeros", "reflect"}


def _reverse_repeat_padding(padding: list[int]) -> list[int]:
    """The padding as `F.pad` takes it: of the last dim first, and of both sides."""
    repeated: list[int] = []
    for i in range(len(padding)):
        repeated.extend([padding[len(padding) - i - 1], padding[len(padding) - i - 1]])
    return repeated


def _padded(input: Tensor, dims: str, padding: list[int], padding_mode: str) -> Tensor:
    """The input, padded by whatever is not zeros; ValueError if it has other dims."""
    if len(input.shape) != len(dims.split(", ")):
        raise ValueError("Input shape must be `(" + dims + ")`!")
    if padding_mode != "zeros":
        return F.pad(input, _reverse_repeat_padding(padding), mode=padding_mode)
    return input


class _ConvNd(WeightedQuantizedModule):
    """A convolution of quantized tensors, to one with this module's scale and zero point."""

    _n: ClassVar[int]
    _FLOAT_MODULE: ClassVar[Any]
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = None
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = None
    _NNI_CONV_ADD_MODULE: ClassVar[Any] = None
    _NNI_CONV_ADD_RELU_MODULE: ClassVar[Any] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def _init(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, transposed: bool, output_padding: Any, groups: int, bias: bool,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if out_channels <= 0:
            raise ValueError(f"out_channels must be greater than 0, got {out_channels}")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.transposed, self.output_padding = dilation, transposed, output_padding
        self.groups = groups
        if padding_mode not in _SUPPORTED_PADDING:
            raise ValueError(
                f"'padding_mode' {padding_mode} is not supported by quantized convolution"
            )
        self.padding_mode = padding_mode
        channels = [in_channels, out_channels // groups]
        if not transposed:
            channels = [out_channels, in_channels // groups]
        qweight = torch._empty_affine_quantized(
            channels + list(kernel_size), scale=1, zero_point=0, dtype=torch.qint8, device=device
        )
        zeros = torch.zeros(out_channels, dtype=torch.float, device=device) if bias else None
        self.set_weight_bias(qweight, zeros)
        self.scale = 1.0
        self.zero_point = 0

    def set_weight_bias(self, qweight: Any, bias_float: Any) -> None:
        """Packs a weight and a bias."""
        raise NotImplementedError

    def bias(self) -> Any:
        """The bias, or None."""
        raise NotImplementedError

    def _weight_bias(self) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Sizes, the output's scale and zero point, and what is not the default."""
        n = len(self.padding)
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        )
        if self.padding != (0,) * n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias() is not None else text + ", bias=False"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        save_qparams(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
        self.set_weight_bias(weight, bias)
        load_qparams(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    @torch.jit.export
    def __getstate__(self):  # type: ignore[no-untyped-def]
        w, b = self._weight_bias()
        return (
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding,
            self.dilation, self.transposed, self.output_padding, self.groups, self.padding_mode,
            w, b, self.scale, self.zero_point, self.training,
        )  # fmt: skip

    @torch.jit.export
    def __setstate__(self, state):  # type: ignore[no-untyped-def]
        if not torch.jit.is_scripting():
            if "_modules" not in self.__dict__:  # of a pickle
                torch.nn.Module.__init__(self)
        self.in_channels = state[0]
        self.out_channels = state[1]
        self.kernel_size = state[2]
        self.stride = state[3]
        self.padding = state[4]
        self.dilation = state[5]
        self.transposed = state[6]
        self.output_padding = state[7]
        self.groups = state[8]
        self.padding_mode = state[9]
        self.set_weight_bias(state[10], state[11])
        self.scale = state[12]
        self.zero_point = state[13]
        self.training = state[14]

    def __deepcopy__(self, memo: Any) -> Any:
        copy = type(self).__new__(type(self))
        copy.__setstate__(self.__getstate__())
        return copy

    def __copy__(self) -> Any:
        return self.__deepcopy__({})

    @classmethod
    def _like(cls, mod: Any, **where: Any) -> Any:
        """A new quantized module with the sizes of another convolution."""
        return cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
            mod.dilation, mod.groups, mod.bias is not None, mod.padding_mode, **where,
        )  # fmt: skip

    @classmethod
    def get_qconv(
        cls, mod: Any, activation_post_process: Any, weight_post_process: Any = None
    ) -> Any:
        """The quantized module of a float one, with the parameters that observers have found."""
        if weight_post_process is None:
            weight_post_process = mod.qconfig.weight()
        weight_post_process(mod.weight)
        if weight_post_process.dtype != torch.qint8:
            raise AssertionError(
                f"Weight observer must have a dtype of qint8, got {weight_post_process.dtype}"
            )
        qweight = observed_weight(mod.weight, weight_post_process, observe=False)
        qconv = cls._like(mod)
        qconv.set_weight_bias(qweight, mod.bias)
        if activation_post_process is None or activation_post_process.dtype == torch.float:
            return qconv  # what is quantized dynamically
        return set_qparams(qconv, *activation_post_process.calculate_qparams())

    @staticmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one, or of one that was trained for it."""
        if hasattr(mod, "weight_fake_quant"):
            if type(mod) is cls._NNIQAT_CONV_BN_MODULE:
                mod.weight, mod.bias = fuse_conv_bn_weights(
                    mod.weight, mod.bias, mod.bn.running_mean, mod.bn.running_var, mod.bn.eps,
                    mod.bn.weight, mod.bn.bias,
                )  # fmt: skip
            if not hasattr(mod, "activation_post_process"):
                raise AssertionError("Input QAT module must have observer attached")
            return cls.get_qconv(mod, mod.activation_post_process, mod.weight_fake_quant)
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__} but "
                f"got: {type(mod).__name__}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined.")
        activations = getattr(mod, "activation_post_process", None)
        fused = (cls._NNI_CONV_RELU_MODULE, cls._NNI_CONV_ADD_MODULE, cls._NNI_CONV_ADD_RELU_MODULE)
        if type(mod) in fused:
            mod = mod[0]
        return cls.get_qconv(mod, activations, mod.qconfig.weight())

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a reference module."""
        weight = ref_qconv.weight
        qconv = cls._like(ref_qconv, device=weight.device, dtype=weight.dtype)
        qconv.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        return set_qparams(qconv, output_scale, output_zero_point)


class _Conv(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        if n == 3 and padding_mode == "reflect":
            raise AssertionError("Conv3d does not support reflection padding")
        padding = padding if n == 1 and isinstance(padding, str) else repeated(padding, n)
        super()._init(
            in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n), padding,
            repeated(dilation, n), False, (0,) * n, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one, or of one that was trained for it."""
        return _ConvNd.from_float(cls, mod, use_precomputed_fake_quant)


class Conv1d(_Conv):
    """A convolution of sequences."""

    _n = 1
    _FLOAT_MODULE: ClassVar[Any] = nn.Conv1d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = nniqat.ConvBn1d
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = nni.ConvReLU1d

    def _get_name(self) -> str:
        return "QuantizedConv1d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        if self.padding_mode == "zeros":
            self._packed_params = torch.ops.quantized.conv1d_prepack(
                w, b, self.stride, self.padding, self.dilation, self.groups
            )
        else:
            self._packed_params = torch.ops.quantized.conv1d_prepack(
                w, b, self.stride, (0, 0), self.dilation, self.groups
            )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        return torch.ops.quantized.conv1d_unpack(self._packed_params)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The convolution."""
        input = _padded(input, "N, C, L", self.padding[:1], self.padding_mode)
        return torch.ops.quantized.conv1d(input, self._packed_params, self.scale, self.zero_point)


class Conv2d(_Conv):
    """A convolution of images."""

    _n = 2
    _FLOAT_MODULE: ClassVar[Any] = nn.Conv2d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = nniqat.ConvBn2d
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = nni.ConvReLU2d
    _NNI_CONV_ADD_MODULE: ClassVar[Any] = nni.ConvAdd2d
    _NNI_CONV_ADD_RELU_MODULE: ClassVar[Any] = nni.ConvAddReLU2d

    def _get_name(self) -> str:
        return "QuantizedConv2d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        if self.padding_mode == "zeros":
            self._packed_params = torch.ops.quantized.conv2d_prepack(
                w, b, self.stride, self.padding, self.dilation, self.groups
            )
        else:
            self._packed_params = torch.ops.quantized.conv2d_prepack(
                w, b, self.stride, (0, 0), self.dilation, self.groups
            )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        return torch.ops.quantized.conv2d_unpack(self._packed_params)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The convolution."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv2d(input, self._packed_params, self.scale, self.zero_point)


class Conv3d(_Conv):
    """A convolution of volumes."""

    _n = 3
    _FLOAT_MODULE: ClassVar[Any] = nn.Conv3d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = nniqat.ConvBn3d
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = nni.ConvReLU3d

    def _get_name(self) -> str:
        return "QuantizedConv3d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        if self.padding_mode == "zeros":
            self._packed_params = torch.ops.quantized.conv3d_prepack(
                w, b, self.stride, self.padding, self.dilation, self.groups
            )
        else:
            self._packed_params = torch.ops.quantized.conv3d_prepack(
                w, b, self.stride, (0, 0, 0), self.dilation, self.groups
            )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        return torch.ops.quantized.conv3d_unpack(self._packed_params)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The convolution."""
        input = _padded(input, "N, C, D, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv3d(input, self._packed_params, self.scale, self.zero_point)


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, transposed: bool, output_padding: Any, groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super()._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _input_padding(
        self, kernel_size: list[int], dilation: list[int], padding: list[int]
    ) -> list[int]:
        return [d * (k - 1) - p for k, d, p in zip(kernel_size, dilation, padding)]

    @classmethod
    def _like(cls, mod: Any, **where: Any) -> Any:
        return cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
            mod.output_padding, mod.groups, mod.bias is not None, mod.dilation, mod.padding_mode,
            **where,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined.")
        return cls.get_qconv(mod, getattr(mod, "activation_post_process", None))


class _ConvTranspose(_ConvTransposeNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        super().__init__(
            in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n),
            repeated(padding, n), repeated(dilation, n), True, repeated(output_padding, n), groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution of sequences."""

    _n = 1
    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose1d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose1d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        self._packed_params = torch.ops.quantized.conv_transpose1d_prepack(
            w, b, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        w, b = torch.ops.quantized.conv_transpose1d_unpack(self._packed_params)
        return (w, b)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The transposed convolution."""
        input = _padded(input, "N, C, L", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose1d(
            input, self._packed_params, self.scale, self.zero_point
        )


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution of images."""

    _n = 2
    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose2d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose2d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        self._packed_params = torch.ops.quantized.conv_transpose2d_prepack(
            w, b, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        w, b = torch.ops.quantized.conv2d_unpack(self._packed_params)
        return (w, b)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The transposed convolution."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose2d(
            input, self._packed_params, self.scale, self.zero_point
        )


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution of volumes."""

    _n = 3
    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose3d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose3d"

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        self._packed_params = torch.ops.quantized.conv_transpose3d_prepack(
            w, b, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        w, b = torch.ops.quantized.conv3d_unpack(self._packed_params)
        return (w, b)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The transposed convolution."""
        input = _padded(input, "N, C, T, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose3d(
            input, self._packed_params, self.scale, self.zero_point
        )
