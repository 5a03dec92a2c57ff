"""What of a module a backend needs that builds its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch import nn
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import pytorch_name
from tritorch.fx.graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


@compatibility(is_backward_compatible=False)
def default_matching(name: str, target_version: int) -> str:
    """The name of an attribute in a version of a module: the same in all."""
    return name


_CONV = [
    "weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode",
]  # fmt: skip
_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]
_POOL = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

# By type: the version of the module, its attributes, and what they are called in others.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, _CONV, default_matching),
    nn.BatchNorm2d: (2, _NORM, default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, _POOL, default_matching),
    nn.ReLU: (1, ["inplace"], default_matching),
}


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod: Any) -> dict[str, Any]:
    """A module's attributes, with the name of its type."""
    name = pytorch_name(type(mod))
    if type(mod) not in module_fetch_book:
        raise RuntimeError(
            f"{name} is not in the module_fetch_book yet, please add it to the module_fetch_book, "
            "open an issue and @842974287 or report a bug to AIACC team directly."
        )
    version, attributes, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {name} version {mod._version}, please upgrade "
            "the module_fetch_book, open an issue and @842974287 or report a bug to AIACC team "
            "directly."
        )
    found = {each: getattr(mod, matching(each, mod._version)) for each in attributes}
    return {"name": name, **found}


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Gives each node that calls a module what of it a backend needs."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)
