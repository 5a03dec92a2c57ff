"""Helpers of both modes: dtypes of a QConfig, ranges, and scales that follow from ranges."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias

import tritorch as torch
from tritorch import Tensor
from tritorch.ao.quantization._passing import func_list, method_list, module_type_list
from tritorch.ao.quantization.quant_type import QuantType
from tritorch.fx import Node
from tritorch.nn.utils.parametrize import is_parametrized

__all__ = [
    "DEPRECATION_WARNING",
    "MatchAllNode",
    "NodePattern",
    "Pattern",
    "activation_dtype",
    "activation_is_dynamically_quantized",
    "activation_is_int8_quantized",
    "activation_is_int32_quantized",
    "activation_is_statically_quantized",
    "calculate_qmin_qmax",
    "check_min_max_valid",
    "check_node",
    "determine_qparams",
    "get_combined_dict",
    "get_fqn_to_example_inputs",
    "get_qconfig_dtypes",
    "get_qparam_dict",
    "get_quant_type",
    "get_swapped_custom_module_class",
    "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel",
    "is_per_tensor",
    "op_is_int8_dynamically_quantized",
    "to_underlying_dtype",
    "validate_qmin_qmax",
    "weight_dtype",
    "weight_is_quantized",
    "weight_is_statically_quantized",
]

# A node, or a node with the patterns of its inputs: `(relu, (bn, conv))`.
NodePattern: TypeAlias = tuple[Node, Node] | tuple[Node, tuple[Node, Node]] | Any
# The same of modules' classes, functions and names of methods.
Pattern: TypeAlias = (
    Callable[..., Any]
    | tuple[Callable[..., Any], Callable[..., Any]]
    | tuple[Callable[..., Any], tuple[Callable[..., Any], Callable[..., Any]]]
    | Any
)
QuantizerCls = Any

# PyTorch's words, by which programs filter the warning.
DEPRECATION_WARNING = (
    "torch.ao.quantization is deprecated and will be removed in 2.10. \n"
    "For migrations of users: \n"
    "1. Eager mode quantization (torch.ao.quantization.quantize, "
    "torch.ao.quantization.quantize_dynamic), please migrate to use torchao eager mode "
    "quantize_ API instead \n"
    "2. FX graph mode quantization (torch.ao.quantization.quantize_fx.prepare_fx,"
    "torch.ao.quantization.quantize_fx.convert_fx, please migrate to use torchao pt2e "
    "quantization API instead (prepare_pt2e, convert_pt2e) \n"
    "3. pt2e quantization has been migrated to torchao "
    "(https://github.com/pytorch/ao/tree/main/torchao/quantization/pt2e) \n"
    "see https://github.com/pytorch/ao/issues/2259 for more details"
)


class MatchAllNode:
    """Matches every node where it stands in a pattern."""


# --- dtypes and schemes ------------------------------------------------------------------

_INT8 = {torch.quint8, torch.qint8, torch.uint8, torch.int8}
_INT32 = {torch.qint32, torch.int32}
_FLOAT8 = {torch.float8_e5m2, torch.float8_e4m3fn}
_STATIC_ACTIVATION = _INT8 | _INT32 | _FLOAT8 | {torch.int16}
_STATIC_WEIGHT = _INT8 | _FLOAT8 | {torch.quint4x2, torch.int16, torch.int32}
_UNDERLYING = {
    torch.quint8: torch.uint8,
    torch.qint8: torch.int8,
    torch.qint32: torch.int32,
    torch.quint4x2: torch.uint8,
    torch.quint2x4: torch.uint8,
    **{
        dtype: dtype
        for dtype in (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32, *_FLOAT8)
    },
}


def to_underlying_dtype(qdtype: Any) -> Any:
    """The integers that a quantized dtype's elements are stored as."""
    if qdtype not in _UNDERLYING:
        raise AssertionError("Unsupported dtype: " + str(qdtype))
    return _UNDERLYING[qdtype]


def is_per_tensor(qscheme: Any) -> bool:
    """Tells whether a scheme has one scale for a tensor."""
    return qscheme == torch.per_tensor_affine or qscheme == torch.per_tensor_symmetric


def is_per_channel(qscheme: Any) -> bool:
    """Tells whether a scheme has a scale for each index of one dim."""
    return qscheme in [
        torch.per_channel_affine,
        torch.per_channel_affine_float_qparams,
        torch.per_channel_symmetric,
    ]


def _made(qconfig: Any, part: str, wanted: str) -> Any:
    """The observer of a QConfig's activation or weight, made anew."""
    if qconfig is None:
        raise AssertionError(f"qconfig must be provided to {wanted}")
    return getattr(qconfig, part)()


def activation_dtype(qconfig: Any) -> Any:
    """dtype that activations are quantized to."""
    return _made(qconfig, "activation", "determine activation dtype").dtype


def weight_dtype(qconfig: Any) -> Any:
    """dtype that weights are quantized to."""
    return _made(qconfig, "weight", "determine weight dtype").dtype


def get_qconfig_dtypes(qconfig: Any) -> tuple[Any, Any, bool]:
    """Returns (activation's dtype, weight's dtype, whether activations are dynamic)."""
    activation = _made(qconfig, "activation", "extract dtypes")
    weight = qconfig.weight()
    return activation.dtype, weight.dtype, getattr(activation, "is_dynamic", False)


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Tells whether activations get a scale before the program runs."""
    dtype, _, dynamic = get_qconfig_dtypes(qconfig)
    return (dtype in _STATIC_ACTIVATION or dtype is torch.float16) and not dynamic


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Tells whether activations get their scale when they come."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Tells whether activations become integers of 8 bits."""
    return activation_dtype(qconfig) in _INT8


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Tells whether activations become integers of 32 bits."""
    return activation_dtype(qconfig) in _INT32


def weight_is_quantized(qconfig: Any) -> bool:
    """Tells whether weights are stored in another dtype."""
    dtype = weight_dtype(qconfig)
    return dtype in _STATIC_WEIGHT or dtype is torch.float16


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Tells whether weights become integers of 8 bits."""
    return weight_dtype(qconfig) in _INT8


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Tells whether weights are int8 and activations become uint8 when they come."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return bool(
        activation in (torch.quint8, torch.uint8)
        and weight in (torch.qint8, torch.int8)
        and dynamic
    )


def get_quant_type(qconfig: Any) -> QuantType:
    """The kind of quantization that a QConfig describes."""
    activation = _made(qconfig, "activation", "determine quant type")
    weight = qconfig.weight()
    static = _STATIC_ACTIVATION | _STATIC_WEIGHT | {torch.qint32}
    if weight.dtype in static or weight.dtype is torch.float16:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if weight.dtype is torch.float16:
            if activation.dtype is torch.float16:
                return QuantType.STATIC
        else:
            return QuantType.STATIC if activation.dtype in static else QuantType.WEIGHT_ONLY
    raise Exception(
        f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}),"
        f"weight({weight.dtype})"
    )


# --- ranges and scales -------------------------------------------------------------------


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Refuses a range of integers that has no zero or less than two values."""
    if not (quant_min <= 0 <= quant_max):
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError(
            "qmin must be strictly less than qmax for user-specified quantization range."
        )


_RANGES = {  # of dtypes, where the user gives none; reduced ones have a bit less
    torch.qint8: (-128, 127),
    torch.int8: (-128, 127),
    torch.quint8: (0, 255),
    torch.uint8: (0, 255),
    torch.qint32: (-(2**31), 2**31 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.uint16: (0, 2**16 - 1),
    torch.int16: (-(2**15), 2**15 - 1),
}


def calculate_qmin_qmax(
    quant_min: int | None,
    quant_max: int | None,
    has_customized_qrange: bool,
    dtype: torch.dtype,
    reduce_range: bool,
) -> tuple[int, int]:
    """Returns the range of integers: the user's or the dtype's, with half the bits if reduced."""
    if not has_customized_qrange:
        low, high = _RANGES.get(dtype, (0, 15))
        halved = reduce_range and dtype in _INT8
    else:
        low, high = (
            (quant_min, quant_max)
            if quant_min is not None and quant_max is not None
            else (0, 2**32 - 1 if dtype in _INT32 else 255)
        )
        bits = {8: (torch.qint8, torch.int8), 32: tuple(_INT32)}
        for width, dtypes in bits.items():
            if dtype in dtypes and not 0 < high - low + 1 <= 2**width:
                raise AssertionError(
                    "quantization range should be positive and not exceed the maximum bit range "
                    f"(={2**width})."
                )
        halved = reduce_range
    return (low // 2, high // 2) if halved else (low, high)


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Tells whether something was observed. Refuses a minimum above the maximum."""
    unset = min_val.numel() == 0 or max_val.numel() == 0
    if not unset and (min_val.dim() == 0 or max_val.dim() == 0):
        unset = bool(min_val == float("inf")) and bool(max_val == float("-inf"))
    if unset:
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default values.",
            stacklevel=2,
        )
        return False
    if torch.any(min_val > max_val):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def _qparams_of_range(
    min_val: Tensor,
    max_val: Tensor,
    quant_min: int,
    quant_max: int,
    eps: Tensor,
    symmetric: bool,
    float_zero_point: bool,
    middle: int,
) -> tuple[Tensor, Tensor]:
    """Scales and zero points of ranges, which TorchScript reads too.

    symmetric: the zero point is `middle`. float_zero_point: the minimum itself becomes the
    integer zero, so the zero point is no integer."""
    negative = torch.min(min_val, torch.zeros_like(min_val))
    positive = torch.max(max_val, torch.zeros_like(max_val))
    if symmetric:
        scale = torch.max(-negative, positive) / (float(quant_max - quant_min) / 2)
        scale = torch.max(scale, eps)
        zero_point = torch.full(min_val.size(), middle, dtype=torch.int64, device=min_val.device)
    elif float_zero_point:
        scale = (max_val - min_val) / float(quant_max - quant_min)
        scale = torch.where(scale > eps, scale, torch.ones_like(scale))
        zero_point = -1 * min_val / scale
    else:
        scale = torch.max((positive - negative) / float(quant_max - quant_min), eps)
        zero_point = quant_min - torch.round(negative / scale).to(torch.int)
        zero_point = torch.clamp(zero_point, quant_min, quant_max)
    if scale.dim() == 0:
        scale = scale.reshape(1)
    if zero_point.dim() == 0:
        zero_point = zero_point.reshape(1)
    return scale, zero_point


def determine_qparams(
    min_val: Tensor,
    max_val: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    eps: Tensor,
    has_customized_qrange: bool,
    qscheme: Any = torch.per_tensor_affine,
) -> tuple[Tensor, Tensor]:
    """Returns scales (float64) and zero points (int64) of ranges, a tensor's or channels'."""
    if not check_min_max_valid(min_val, max_val):
        device = min_val.device.type
        return torch.tensor([1.0], device=device), torch.tensor([0], device=device)
    middle = 0
    if dtype in (torch.uint8, torch.quint8):
        middle = (quant_min + quant_max) // 2 if has_customized_qrange else 128
    scale, zero_point = _qparams_of_range(
        min_val,
        max_val,
        quant_min,
        quant_max,
        eps.to(min_val.device),
        qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric),
        qscheme == torch.per_channel_affine_float_qparams,
        middle,
    )
    return scale.to(torch.double), zero_point.to(torch.int64)


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """Describes how a tensor is to be quantized: scheme, dtype, scale, zero point, axis, range."""
    observer = observer_or_fake_quant
    qscheme = getattr(observer, "qscheme", None)
    if not qscheme or getattr(observer, "_only_configures", False):
        return {"qscheme": None, "dtype": observer.dtype}
    qparams: dict[str, Any] = {"qscheme": qscheme, "dtype": observer.dtype}
    # Tensors have no symmetric schemes: theirs are affine ones with a zero point in the middle.
    if is_per_tensor(qscheme):
        qparams["qscheme"] = torch.per_tensor_affine
    elif is_per_channel(qscheme):
        if qscheme == torch.per_channel_symmetric:
            qparams["qscheme"] = torch.per_channel_affine
        qparams["axis"] = observer.ch_axis
    else:
        raise RuntimeError(f"Unrecognized qscheme: {qscheme}")
    qparams["scale"], qparams["zero_point"] = observer.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer, name):
            qparams[name] = getattr(observer, name)
    return qparams


# --- modules, names and arguments --------------------------------------------------------


def get_combined_dict(
    default_dict: dict[Any, Any], additional_dict: dict[Any, Any]
) -> dict[Any, Any]:
    """A copy of default_dict in which additional_dict's items replace or follow its own."""
    return {**default_dict, **additional_dict}


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """obj.a.b.c of "a.b.c"."""
    return functools.reduce(getattr, fqn.split("."), obj)


def get_swapped_custom_module_class(
    custom_module: Any, custom_module_class_mapping: dict[Any, Any], qconfig: Any
) -> Any:
    """The class that takes a custom module's place, by the QConfig's kind of quantization."""
    classes = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in classes:
        raise AssertionError(
            "did not find corresponding observed "
            f"module class for {type(custom_module)} in mapping: {classes}"
        )
    return classes[type(custom_module)]


def has_no_children_ignoring_parametrizations(module: Any) -> bool:
    """Tells whether a module is a leaf, apart from its parametrizations."""
    children = module._modules
    return len(children) == 0 or (
        is_parametrized(module) and list(children) == ["parametrizations"]
    )


def _parent_name(target: str) -> tuple[str, str]:
    """("a.b", "c") of "a.b.c"."""
    parent, _, name = target.rpartition(".")
    return parent, name


def _get_path_of_module(root: torch.nn.Module, submodule: torch.nn.Module) -> str | None:
    """A submodule's name below root, or None."""
    return next((name for name, module in root.named_modules() if module is submodule), None)


def _get_signature_locals(f: Callable[..., Any], loc: dict[str, Any]) -> dict[str, Any]:
    """The items of loc that f has parameters for."""
    parameters = inspect.signature(f).parameters
    return {name: value for name, value in loc.items() if name in parameters}


def _get_default_kwargs(f: Callable[..., Any]) -> OrderedDict[str, Any]:
    """Parameters of f that may be left out, with what they are then."""
    absent: dict[Any, Any] = {
        inspect.Parameter.VAR_POSITIONAL: (),
        inspect.Parameter.VAR_KEYWORD: {},
    }
    out: OrderedDict[str, Any] = OrderedDict()
    for name, parameter in inspect.signature(f).parameters.items():
        if parameter.default is not parameter.empty:
            out[name] = parameter.default
        elif parameter.kind in absent:
            out[name] = absent[parameter.kind]
    return out


def _normalize_kwargs(func: Callable[..., Any], loc: dict[str, Any]) -> OrderedDict[str, Any]:
    """All of func's parameters that have defaults, as loc has them or by default."""
    out = _get_default_kwargs(func)
    out.update({name: value for name, value in loc.items() if name in out})
    return out


def _get_num_pos_args(f: Callable[..., Any]) -> int:
    return len(inspect.getfullargspec(f).args)


def get_fqn_to_example_inputs(
    model: torch.nn.Module, example_inputs: tuple[Any, ...]
) -> dict[str, tuple[Any, ...]]:
    """Runs a model and returns what each submodule was called with, by name.

    Keyword arguments stand at their places, defaults are filled in."""
    found: dict[str, tuple[Any, ...]] = {}
    call = torch.nn.Module.__call__

    @functools.wraps(call)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = _get_path_of_module(model, self)
        if name is not None:
            bound = inspect.signature(self.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            found[name] = (*bound.args, *bound.kwargs.values())
        return call(self, *args, **kwargs)

    torch.nn.Module.__call__ = noting  # type: ignore[method-assign]
    try:
        model(*example_inputs)
    finally:
        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
    return found


def _assert_and_get_unique_device(module: torch.nn.Module) -> Any:
    """A module's one device, or None without parameters and buffers. Refuses several."""
    devices = {tensor.device for tensor in (*module.parameters(), *module.buffers())}
    if devices == {torch.device("cpu"), torch.device("meta")}:
        warnings.warn(
            "Both 'meta' and 'cpu' are present in the list of devices. "
            "Module can have one device. We Select 'cpu'.",
            stacklevel=2,
        )
        devices = {torch.device("cpu")}
    if len(devices) > 1:
        raise AssertionError(
            f"prepare only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    return next(iter(devices), None)


def check_node(node: Any, modules: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Tells whether a node is a function, a method or a module that is in those lists."""
    return (
        node.op == "call_function" and node.target in func_list,
        node.op == "call_method" and node.target in method_list,
        node.op == "call_module" and type(modules[str(node.target)]) in module_type_list,
    )
