"""Sparsifiers: masks for tensors of a model, kept in groups with a configuration each."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

import tritorch
from tritorch.ao.pruning.sparsifier.utils import (
    FakeSparsity,
    get_arg_info_from_tensor_fqn,
    module_contains_param,
    module_to_fqn,
    swap_module,
)
from tritorch.nn import Linear, Module
from tritorch.nn.utils import parametrize
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES: set[type[Module]] = {Linear}

KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Base of sparsifiers. A subclass defines `update_mask`.

    `defaults` is the configuration of groups that do not say otherwise. `prepare` makes a group for
    each entry of its configuration, a dict with `tensor_fqn` at least.
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for index, group in enumerate(self.groups):
            text += f"\n\tGroup {index}\n\t    module: {group['module']}\n"
            text += "".join(
                f"\t    {key}: {group[key]}\n" for key in sorted(group) if key != "module"
            )
        return f"{text})"

    def state_dict(self) -> dict[str, Any]:
        """Masks, and groups without their modules."""
        groups = [
            {key: value for key, value in group.items() if key not in KEYS_NOT_IN_STATE_DICT}
            for group in self.groups
        ]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Restores groups and masks; tensors without a mask get the parametrization."""
        groups = copy.deepcopy(state_dict["groups"])
        states = state_dict["state"]
        for tensor_fqn, entry in states.items():
            where = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            module, tensor_name = where["module"], where["tensor_name"]
            if strict and module is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model")
            for parametrization in module.parametrizations[tensor_name]:
                if isinstance(parametrization, FakeSparsity):
                    break
            else:
                parametrization = FakeSparsity(tritorch.ones(getattr(module, tensor_name).shape))
                parametrize.register_parametrization(module, tensor_name, parametrization)
            if entry.get("mask") is not None:
                parametrization.mask = entry.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(where)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(
        self, model: Module, SUPPORTED_MODULES: set[type[Module]] = SUPPORTED_MODULES
    ) -> None:
        """Configures the weights of all modules of the supported types."""
        self.config: list[dict[str, Any]] = []
        pending = [model]
        while pending:
            for child in pending.pop().children():
                if type(child) not in SUPPORTED_MODULES:
                    pending.append(child)
                    continue
                path = module_to_fqn(model, child)
                if not isinstance(path, str):
                    raise AssertionError("module_fqn must be a string")
                self.config.append({"tensor_fqn": f"{path}.weight"})

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Adds masks to the tensors that `config` names, in place; by default to all weights."""
        self.model = model
        if config is None:
            self.make_config_from_model(model)
        else:
            self.config = config
        self.groups.extend(self._group(model, entry) for entry in self.config)
        self._prepare()

    def _group(self, model: Module, entry: Any) -> dict[str, Any]:
        """A group of one entry of the configuration, checked against what its tensor's path
        says."""
        if not isinstance(entry, dict):
            raise AssertionError(
                "config elements should be dicts not modules i.e.:"
                "[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]"
            )
        if not isinstance(self.defaults, dict):
            raise AssertionError("defaults must be a dict")
        group = copy.deepcopy(self.defaults)
        group.update(entry)
        tensor_fqn = group.get("tensor_fqn")
        if tensor_fqn is None:
            raise AssertionError(
                "tensor_fqn is a required argument in the sparsity config which "
                "replaces previous `module` and [module]`fqn` arguments"
            )
        where = get_arg_info_from_tensor_fqn(model, tensor_fqn)
        for key, value in where.items():
            if key == "tensor_fqn":
                agrees = group[key] in (value, f".{value}")
            else:
                agrees = key not in group or group[key] == value
            if not agrees:
                raise AssertionError(
                    f"Given both `{key}` and `tensor_fqn` in the config, "
                    "it is expected them to agree!"
                )
        group.update(where)
        return group

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Registers a mask for each group's tensor."""
        for group in self.groups:
            module, tensor_name = group["module"], group["tensor_name"]
            mask = group.get("mask", tritorch.ones_like(getattr(module, tensor_name)))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrization = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, tensor_name, parametrization(mask))

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Makes the masked tensors plain parameters again.

        `params_to_keep` names entries of the configuration, for all modules, and
        `params_to_keep_per_layer` by a module's path, that stay in a module's `sparse_params`.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(
                module, group["tensor_name"], leave_parametrized=True
            )
            kept = tuple(params_to_keep or ())
            kept += tuple((params_to_keep_per_layer or {}).get(group["module_fqn"]) or ())
            if kept:
                module.sparse_params = {key: group[key] for key in kept}

    def convert(
        self,
        module: Module,
        mapping: dict[type[Module], type[Module]] | None = None,
        inplace: bool = False,
        parameterization: type[Module] = FakeSparsity,
    ) -> Module:
        """Swaps masked submodules for those that `mapping` has for their types."""
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            masked = module_contains_param(child, parameterization)
            if masked and type_before_parametrizations(child) in mapping:
                module._modules[name] = swap_module(child, mapping)
            else:
                module._modules[name] = self.convert(
                    child, mapping=mapping, inplace=True, parameterization=parameterization
                )
        return module

    def step(self, use_path: bool = True) -> None:
        """Updates all masks, unless updates are off."""
        if not self.enable_mask_update:
            return
        with tritorch.no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Computes the mask of one group."""
