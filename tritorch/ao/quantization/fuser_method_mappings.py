"""Functions that put modules in a row into one, by the classes of the row."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import tritorch.ao.nn.intrinsic as nni
from tritorch import nn
from tritorch.ao.quantization.utils import MatchAllNode, Pattern, get_combined_dict
from tritorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "fuse_conv_bn",
    "fuse_conv_bn_relu",
    "fuse_convtranspose_bn",
    "fuse_linear_bn",
    "get_fuser_method",
    "get_fuser_method_new",
]

_CONVS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


def _same_mode(kind: str, *modules: Any) -> None:
    if len({module.training for module in modules}) > 1:
        raise AssertionError(f"{kind} and BN both must be in the same mode (train or eval).")


def _trainable(outputs: int, kind: str, n: int, bn: Any, stop: str = "") -> None:
    """Refuses batch norms that cannot be trained within another module."""
    if bn.num_features != outputs:
        raise AssertionError(f"{kind} must match num_features of BatchNorm{n}d{stop}")
    if not bn.affine:
        raise AssertionError(f"Only support fusing BatchNorm{n}d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError(
            f"Only support fusing BatchNorm{n}d with tracking_running_stats set to True"
        )


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """Puts a batch norm into a convolution: into its weight, or to be trained with it (is_qat)."""
    _same_mode("Conv", conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _trainable(conv.out_channels, "Output channel of Conv2d", 2, bn, ".")
    if type(conv) not in _CONVS:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return getattr(nni, f"ConvBn{_CONVS[type(conv)]}d")(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """Puts a batch norm and a ReLU into a convolution."""
    _same_mode("Conv", conv, bn, relu)
    if is_qat:
        _trainable(conv.out_channels, "Output channel of Conv2d", 2, bn)
    if type(conv) not in _CONVS:
        mode = "train" if is_qat else "eval"
        raise NotImplementedError(f"Cannot fuse {mode} modules: {(conv, bn, relu)}")
    n = _CONVS[type(conv)]
    if is_qat:
        return getattr(nni, f"ConvBnReLU{n}d")(conv, bn, relu)
    return getattr(nni, f"ConvReLU{n}d")(fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """Puts a batch norm into a Linear."""
    _same_mode("Linear", linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _trainable(linear.out_features, "Output features of Linear", 1, bn)
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """Puts a batch norm into a transposed convolution's weight."""
    _same_mode("ConvTranspose", convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential: Any) -> Callable[..., Any]:
    """A fuser method that makes a class of two modules, in training or not."""

    def fuser_method(is_qat: bool, m1: Any, m2: Any) -> Any:
        return sequential(m1, m2)

    return fuser_method


def _of_dims(n: int) -> dict[tuple[Any, ...], Any]:
    conv, bn = getattr(nn, f"Conv{n}d"), getattr(nn, f"BatchNorm{n}d")
    return {
        (conv, bn): fuse_conv_bn,
        (conv, bn, nn.ReLU): fuse_conv_bn_relu,
        (conv, nn.ReLU): _sequential_wrapper2(getattr(nni, f"ConvReLU{n}d")),
        (getattr(nn, f"ConvTranspose{n}d"), bn): fuse_convtranspose_bn,
    }


_DEFAULT_OP_LIST_TO_FUSER_METHOD: dict[tuple[Any, ...], Any] = {
    **_of_dims(1),
    **_of_dims(2),
    **_of_dims(3),
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _sequential_wrapper2(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _sequential_wrapper2(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _sequential_wrapper2(nni.BNReLU3d),
}


def get_fuser_method(
    op_list: tuple[Any, ...], additional_fuser_method_mapping: dict[Any, Any] | None = None
) -> Any:
    """Returns the function that fuses modules of these classes. Raises if there is none."""
    methods = get_combined_dict(
        _DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {}
    )
    method = methods.get(op_list)
    if method is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return method


def _reverse2(f: Callable[..., Any]) -> Callable[..., Any]:
    """A fuser method of (a, b) as one of the pattern (b, a)."""

    def reversed(is_qat: bool, x: Any, y: Any) -> Any:
        return f(is_qat, y, x)

    return reversed


def _reverse3(f: Callable[..., Any]) -> Callable[..., Any]:
    """A fuser method of (a, b, c) as one of the pattern (c, (b, a))."""

    def reversed(is_qat: bool, x: Any, w: Any) -> Any:
        y, z = w
        return f(is_qat, z, y, x)

    return reversed


def _get_valid_patterns(op_pattern: Any) -> list[Any]:
    """A pattern with each choice of its leaves replaced by MatchAllNode, itself first."""
    if isinstance(op_pattern, (tuple, list)):
        return list(itertools.product(*map(_get_valid_patterns, op_pattern)))
    return [op_pattern, MatchAllNode]


def get_fuser_method_new(op_pattern: Pattern, fuser_method_mapping: dict[Any, Any]) -> Any:
    """Returns the function that fuses a nested pattern, whose leaves may stand for all nodes."""
    patterns = _get_valid_patterns(op_pattern)
    for pattern in patterns:
        method = fuser_method_mapping.get(pattern)
        if method is not None:
            return method
    raise AssertionError(f"did not find fuser method for: {patterns[-1]} ")
