"""Equalization of weights: channels between two layers get equal ranges on both sides.

From "Data-Free Quantization Through Weight Equalization and Bias Correction", 4.1: what is
divided out of a layer's output channels is multiplied into the next one's input channels."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import tritorch as torch
import tritorch.ao.nn.intrinsic as nni
from tritorch import Tensor, nn

__all__ = [
    "channel_range",
    "converged",
    "cross_layer_equalization",
    "equalize",
    "expand_groups_in_paired_modules_list",
    "get_module_bias",
    "get_module_weight",
    "get_name_by_module",
    "has_bias",
    "max_over_ndim",
    "min_over_ndim",
    "process_paired_modules_list_to_name",
    "set_module_bias",
    "set_module_weight",
]

_supported_types = {nn.Conv2d, nn.Linear, nn.Conv1d}
_supported_intrinsic_types = {nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _layer(module: Any) -> Any:
    """The module with the weight: itself, or the first of a fused one."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module: Any, weight: Tensor) -> None:
    """Gives a module, or the first of a fused one, a weight."""
    _layer(module).weight = nn.Parameter(weight)


def set_module_bias(module: Any, bias: Tensor) -> None:
    """Gives a module, or the first of a fused one, a bias."""
    _layer(module).bias = nn.Parameter(bias)


def has_bias(module: Any) -> bool:
    """Tells whether a module, or the first of a fused one, has a bias."""
    return _layer(module).bias is not None


def get_module_weight(module: Any) -> Any:
    """Returns the weight of a module, or of the first of a fused one."""
    return _layer(module).weight


def get_module_bias(module: Any) -> Any:
    """Returns the bias of a module, or of the first of a fused one."""
    return _layer(module).bias


def max_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The greatest values over several dims."""
    for axis in sorted(axis_list, reverse=True):
        input = input.max(axis, keepdim)[0]
    return input


def min_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The least values over several dims."""
    for axis in sorted(axis_list, reverse=True):
        input = input.min(axis, keepdim)[0]
    return input


def channel_range(input: Tensor, axis: int = 0) -> Tensor:
    """Greatest less least value at each index of a dim."""
    others = [dim for dim in range(input.ndim) if dim != axis]
    low, high = min_over_ndim(input, others), max_over_ndim(input, others)
    if low.size(0) != input.size(axis):
        raise AssertionError(
            "Dimensions of resultant channel range does not match size of requested axis"
        )
    return high - low


def get_name_by_module(model: nn.Module, module: nn.Module) -> str:
    """Returns a module's name in a model. Raises if it is not there."""
    for name, found in model.named_modules():
        if found is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(
    module1: Any, module2: Any, output_axis: int = 0, input_axis: int = 1
) -> None:
    """Scales two layers' weights so that the channels between them have equal ranges."""
    if not {type(module1), type(module2)} <= _all_supported_types:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    first, second = get_module_weight(module1), get_module_weight(module2)
    if first.size(output_axis) != second.size(input_axis):
        raise TypeError(
            "Number of output channels of first arg do not match "
            "        number input channels of second arg"
        )
    ranges = channel_range(first, output_axis), channel_range(second, input_axis) + 1e-9
    factors = torch.sqrt(ranges[0] / ranges[1])
    inverse = torch.reciprocal(factors)

    def along(values: Tensor, weight: Tensor, axis: int) -> Tensor:
        return values.reshape([-1 if dim == axis else 1 for dim in range(weight.ndim)])

    set_module_weight(module1, first * along(inverse, first, output_axis))
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1) * inverse)
    set_module_weight(module2, second * along(factors, second, input_axis))


def process_paired_modules_list_to_name(
    model: nn.Module, paired_modules_list: list[list[Any]]
) -> list[list[Any]]:
    """Puts names in the place of modules, in these lists themselves, and returns them."""
    for group in paired_modules_list:
        for i, item in enumerate(group):
            if isinstance(item, nn.Module):
                group[i] = get_name_by_module(model, item)
            elif not isinstance(item, str):
                raise TypeError("item must be a nn.Module or a string")
    return paired_modules_list


def expand_groups_in_paired_modules_list(
    paired_modules_list: list[list[Any]],
) -> list[list[Any]]:
    """Returns pairs of neighbours of each group."""
    if any(len(group) == 1 for group in paired_modules_list):
        raise ValueError("Group must have at least two modules")
    return [list(pair) for group in paired_modules_list for pair in itertools.pairwise(group)]


def equalize(
    model: Any,
    paired_modules_list: list[list[Any]],
    threshold: float = 1e-4,
    inplace: bool = True,
) -> Any:
    """Equalizes neighbours until weights change by less than threshold; returns the model.

    paired_modules_list: groups of modules or names, in the order of the calls, with nothing but
    ReLU-like functions between them."""
    names = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(names)
    wanted = set(itertools.chain.from_iterable(pairs))
    modules = {name: module for name, module in model.named_modules() if name in wanted}
    previous: dict[str, Any] = dict.fromkeys(modules)
    while not converged(modules, previous, threshold):
        for pair in pairs:
            previous.update({name: copy.deepcopy(modules[name]) for name in pair})
            cross_layer_equalization(*(modules[name] for name in pair))
    return model


def converged(
    curr_modules: dict[str, Any], prev_modules: dict[str, Any], threshold: float = 1e-4
) -> bool:
    """Tells whether the norms of the weights' changes add up to less than threshold."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError(
            "The keys to the given mappings must have the same set of names of modules"
        )
    if None in prev_modules.values():
        return False
    changes = [
        torch.norm(get_module_weight(module).sub(get_module_weight(prev_modules[name])))
        for name, module in curr_modules.items()
    ]
    return float(sum(changes)) < threshold
