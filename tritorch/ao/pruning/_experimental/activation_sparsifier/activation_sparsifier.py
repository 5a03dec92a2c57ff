"""Masks of activations, from what passed through layers."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning.sparsifier.utils import fqn_to_module, module_to_fqn
from tritorch.nn import Module

__all__ = ["ActivationSparsifier"]

_FUNCTIONS = ("aggregate_fn", "reduce_fn", "mask_fn")


def _feature(index: Any, data: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The indices of a feature, a number or a list, and what the data has there."""
    indices = tritorch.tensor([index], dtype=tritorch.int64, device=data.device).flatten()
    return indices, tritorch.index_select(data, dim, indices)


class ActivationSparsifier:
    """Masks the inputs of registered layers with mask_fn(reduce_fn(aggregate_fn(...))).

    `aggregate_fn` joins two tensors, what came so far and an input; `reduce_fn` takes the
    aggregate; `mask_fn` makes the mask of that and of `sparse_config`. With `features`, indices
    along `feature_dim`, each has a mask of its own. Layers may override each of these.
    """

    def __init__(
        self,
        model: Module,
        aggregate_fn: Callable[..., Any] | None = None,
        reduce_fn: Callable[..., Any] | None = None,
        mask_fn: Callable[..., Any] | None = None,
        features: list[Any] | None = None,
        feature_dim: int | None = None,
        **sparse_config: Any,
    ) -> None:
        self.model = model
        self.defaults: dict[str, Any] = defaultdict()
        self.defaults.update(
            sparse_config=sparse_config,
            aggregate_fn=aggregate_fn,
            reduce_fn=reduce_fn,
            mask_fn=mask_fn,
            features=features,
            feature_dim=feature_dim,
        )
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        self.state: dict[str, Any] = defaultdict(dict)

    @staticmethod
    def _safe_rail_checks(args: dict[str, Any]) -> None:
        """Raises if features have no dim or a function is none."""
        if args["features"] is not None and args["feature_dim"] is None:
            raise AssertionError("need feature dim to select features")
        for key in _FUNCTIONS:
            if not callable(args[key]):
                raise AssertionError(f"{args[key]} must be callable")

    def _aggregate_hook(self, name: str) -> Callable[..., None]:
        """A hook that aggregates what enters the layer."""
        group = self.data_groups[name]
        dim, features, join = group["feature_dim"], group["features"], group["aggregate_fn"]

        def hook(module: Module, input: tuple[Any, ...]) -> None:
            group, entering = self.data_groups[name], input[0]
            data = group.get("data")
            if features is None:
                if data is None:
                    data = tritorch.zeros_like(entering)
                    self.state[name]["mask"] = tritorch.ones_like(entering)
                group["data"] = join(data, entering)
                return
            parts = [_feature(index, entering, dim)[1] for index in features]
            if data is None:
                data = [tritorch.zeros_like(part) for part in parts]
                self.state[name]["mask"] = [tritorch.ones_like(part) for part in parts]
            group["data"] = [join(so_far, part) for so_far, part in zip(data, parts)]

        return hook

    def register_layer(
        self,
        layer: Module,
        aggregate_fn: Callable[..., Any] | None = None,
        reduce_fn: Callable[..., Any] | None = None,
        mask_fn: Callable[..., Any] | None = None,
        features: list[Any] | None = None,
        feature_dim: int | None = None,
        **sparse_config: Any,
    ) -> None:
        """Aggregates the inputs of a layer of the model from now on."""
        name = module_to_fqn(self.model, layer)
        if name is None:
            raise AssertionError("layer not found in the model")
        if name in self.data_groups:
            warnings.warn(
                "layer already attached to the sparsifier, deregistering the layer and "
                "registering with new config",
                stacklevel=2,
            )
            self.unregister_layer(name=name)
        group = copy.deepcopy(self.defaults)
        overrides = {
            "aggregate_fn": aggregate_fn,
            "reduce_fn": reduce_fn,
            "mask_fn": mask_fn,
            "features": features,
            "feature_dim": feature_dim,
            "layer": layer,
        }
        group.update((key, value) for key, value in overrides.items() if value is not None)
        group["sparse_config"].update(sparse_config)
        self._safe_rail_checks(group)
        self.data_groups[name] = group
        group["hook"] = layer.register_forward_pre_hook(self._aggregate_hook(name=name))
        group["hook_state"] = "aggregate"
        self.state[name]["mask"] = None  # its shape is known when the model is called

    def get_mask(self, name: str | None = None, layer: Module | None = None) -> Any:
        """The mask of a layer, or a list of one a feature; there is none before the first call."""
        if name is None and layer is None:
            raise AssertionError("Need at least name or layer obj to retrieve mask")
        if name is None:
            name = module_to_fqn(self.model, layer)  # type: ignore[arg-type]
            if name is None:
                raise AssertionError("layer not found in the specified model")
        if name not in self.state:
            raise ValueError("Error: layer with the given name not found")
        mask = self.state[name].get("mask")
        if mask is None:
            raise ValueError(
                "Error: shape unknown, call layer() routine at least once to infer mask"
            )
        return mask

    def unregister_layer(self, name: str) -> None:
        """Leaves a layer alone from now on."""
        self.data_groups.pop(name)["hook"].remove()
        self.state.pop(name)

    def step(self) -> None:
        """Computes all masks, and forgets what was aggregated."""
        with tritorch.no_grad():
            for name, group in self.data_groups.items():
                self.update_mask(name, group["data"], group)
                group.pop("data")

    def update_mask(self, name: str, data: Any, configs: dict[str, Any]) -> None:
        """Computes the mask of a layer, feature by feature if there are some."""
        mask, features = self.get_mask(name), configs["features"]

        def computed(aggregate: Tensor) -> Tensor:
            reduced = configs["reduce_fn"](aggregate)
            return configs["mask_fn"](reduced, **configs["sparse_config"])

        if features is None:
            mask.data = computed(data)
        else:
            for index in range(len(features)):
                mask[index].data = computed(data[index])

    def _sparsify_hook(self, name: str) -> Callable[..., Tensor]:
        """A hook that masks what enters the layer."""
        mask = self.get_mask(name)
        features, dim = self.data_groups[name]["features"], self.data_groups[name]["feature_dim"]

        def hook(module: Module, input: tuple[Any, ...]) -> Tensor:
            entering = input[0]
            if features is None:
                return entering * mask
            for position, index in enumerate(features):
                indices, part = _feature(index, entering, dim)
                entering.index_copy_(dim, indices, part * mask[position])
            return entering

        return hook

    def squash_mask(self, attach_sparsify_hook: bool = True, **kwargs: Any) -> None:
        """Ends aggregating; layers' inputs are masked from now on, if wanted."""
        for name, group in self.data_groups.items():
            group.pop("hook").remove()
            if attach_sparsify_hook:
                layer = group["layer"]
                group["hook"] = layer.register_forward_pre_hook(self._sparsify_hook(name))
            group["hook_state"] = "sparsify"

    def _get_serializable_data_groups(self) -> dict[str, Any]:
        """Groups without hooks and layers."""
        groups: dict[str, Any] = defaultdict()
        for name, group in self.data_groups.items():
            groups[name] = {k: v for k, v in group.items() if k not in ("hook", "layer")}
        return groups

    def _convert_mask(self, states_dict: dict[str, Any], sparse_coo: bool = True) -> dict[str, Any]:
        """A copy of the states with masks in coordinate format, or dense ones."""

        def converted(mask: Any) -> Any:
            if isinstance(mask, list):
                return [converted(entry) for entry in mask]
            return mask.to_sparse_coo() if sparse_coo else mask.to_dense()

        states = copy.deepcopy(states_dict)
        for state in states.values():
            if state["mask"] is not None:
                state["mask"] = converted(state["mask"])
        return states

    def state_dict(self) -> dict[str, Any]:
        """Masks in coordinate format, configurations, and defaults."""
        return {
            "state": self._convert_mask(self.state),
            "data_groups": self._get_serializable_data_groups(),
            "defaults": self.defaults,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state; the hooks that it had are registered with the model's layers."""
        self.__set_state__({key: state_dict[key] for key in ("state", "data_groups", "defaults")})

    def __get_state__(self) -> dict[str, Any]:
        return self.state_dict()

    def __set_state__(self, state: dict[str, Any]) -> None:
        state["state"] = self._convert_mask(state["state"], sparse_coo=False)
        self.__dict__.update(state)
        hooks = {"aggregate": self._aggregate_hook, "sparsify": self._sparsify_hook}
        for name, group in self.data_groups.items():
            layer = fqn_to_module(self.model, name)
            if layer is None:
                raise AssertionError(f"layer {name} not found in the model")
            group["layer"] = layer
            group["hook"] = layer.register_forward_pre_hook(hooks[group["hook_state"]](name))

    def __repr__(self) -> str:
        hidden = ("data", "hook", *_FUNCTIONS)
        text = f"{type(self).__name__} ("
        for name, group in self.data_groups.items():
            text += f"\n\tData Group\n\t    name: {name}\n"
            text += "".join(
                f"\t    {key}: {group[key]}\n" for key in sorted(group) if key not in hidden
            )
        return f"{text})"
