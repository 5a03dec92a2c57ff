"""Base of sparsifiers of named data: tensors, parameters, embeddings."""

from __future__ import annotations

import abc
import copy
import warnings
from collections import defaultdict
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning.sparsifier import base_sparsifier, utils
from tritorch.nn import Embedding, EmbeddingBag, Module, Parameter
from tritorch.nn.utils import parametrize

__all__ = ["BaseDataSparsifier"]

EMBEDDING_TYPES = {Embedding, EmbeddingBag}

SUPPORTED_TYPES = {Tensor, Parameter, *EMBEDDING_TYPES}


class _Container(Module):
    """Holds the data as buffers, with their masks."""


class BaseDataSparsifier(base_sparsifier.BaseSparsifier):
    """Base of data sparsifiers. A subclass defines `update_mask`.

    `data_list` has pairs of a name and a tensor, parameter, embedding or embedding bag; the other
    arguments are the default configuration. The data and masks live in a module of the sparsifier.
    """

    def __init__(self, data_list: list[tuple[str, Any]] | None = None, **defaults: Any) -> None:
        super().__init__(defaults=defaults)
        self._container: Module = _Container()
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, data in data_list or ():
            self.add_data(name, data, **self.defaults)

    def prepare(self, model: Any, config: Any) -> None:
        """Undefined: there is no model."""
        raise NotImplementedError("this function is undefined for this class")

    def _extract_weight(self, data: Any) -> Any:
        if type(data) in EMBEDDING_TYPES:
            return data.weight
        return data if type(data) in SUPPORTED_TYPES else None

    def add_data(self, name: str, data: Any, reuse_mask: bool = True, **config: Any) -> Tensor:
        """Adds data, or replaces data of that name, and returns it masked.

        Replaced data keeps its configuration where `config` does not say otherwise, and with
        `reuse_mask` its mask, for which the shapes have to be the same.
        """
        if type(data) not in SUPPORTED_TYPES:
            raise AssertionError(f"specified data type:{type(data)} not supported at the moment")
        group = copy.deepcopy(self.defaults)
        group.update(config)
        weight = self._extract_weight(data)
        mask = group.get("mask", tritorch.ones_like(weight))
        parametrization = group.get("parametrization", utils.FakeSparsity)
        if name in self.state:
            warnings.warn(
                "Replacing existing data of the same name. - Did you mean a different name?",
                stacklevel=2,
            )
            group = copy.deepcopy(self.data_groups[name])
            group.update(config)
            if reuse_mask:
                if weight.shape != self.get_data(name=name).shape:
                    raise AssertionError(
                        "to retain the old mask, the shape of the new data must be the same "
                        "as the previous one"
                    )
                mask = self.get_mask(name=name)
            self._delete_data(name=name)
        self._container.register_buffer(name=name, tensor=weight)
        parametrize.register_parametrization(self._container, name, parametrization(mask))
        self.state[name]["mask"] = mask
        self.data_groups[name] = group
        return getattr(self._container, name)

    def get_data(self, name: str, return_original: bool = True) -> Tensor:
        """The data of a name, unmasked or with its mask applied."""
        if name not in self.data_groups:
            raise ValueError("data with specified name does not exist")
        if not return_original:
            return getattr(self._container, name)
        if not parametrize.is_parametrized(self._container, name):
            raise ValueError("mask squashed - original mask value does not exist")
        return getattr(self._container.parametrizations, name).original

    def _convert_mask(self, states: dict[str, Any], sparse_coo: bool = True) -> dict[str, Any]:
        """A copy of the states with masks in coordinate format, or dense ones."""
        states = copy.deepcopy(states)
        for state in states.values():
            mask = state["mask"]
            state["mask"] = mask.to_sparse_coo() if sparse_coo else mask.to_dense()
        return states

    def state_dict(self) -> dict[str, Any]:
        """Masks in coordinate format, configurations, and the data."""
        return {
            "state": self._convert_mask(self.state),
            "data_groups": self.data_groups,
            "_container": self._container.state_dict(),
        }

    def _load_container_from_state(
        self,
        states: dict[str, Any],
        data_groups: dict[str, Any],
        container_state_dict: dict[str, Any],
    ) -> None:
        """Puts saved data into the container, with a mask unless it was squashed."""
        for name, state in states.items():
            masked_name = f"parametrizations.{name}.original"
            squashed = name in container_state_dict
            if data_groups.get(name) is None or not (
                squashed or masked_name in container_state_dict
            ):
                raise RuntimeError(f"Error loading {name}")
            data = container_state_dict[name if squashed else masked_name]
            self._container.register_buffer(name=name, tensor=data)
            if not squashed:
                mask = state.get("mask", tritorch.ones_like(data))
                parametrization = data_groups.get("parametrization", utils.FakeSparsity)
                parametrize.register_parametrization(self._container, name, parametrization(mask))

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Restores a state; if not `strict`, beside the data that is there."""
        saved = {key: copy.deepcopy(state_dict[key]) for key in ("state", "data_groups")}
        states = self._convert_mask(saved["state"], sparse_coo=False)
        data_groups = saved["data_groups"]
        if strict:
            self._container = _Container()
        self._load_container_from_state(
            states, data_groups, copy.deepcopy(state_dict["_container"])
        )
        if not strict:
            states.update(self.state)
            data_groups.update(self.data_groups)
        self.__setstate__({"state": states, "data_groups": data_groups})

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_container" in state:
            container = state.pop("_container")
            self._container = _Container()
            state["state"] = self._convert_mask(state["state"], sparse_coo=False)
            self._load_container_from_state(state["state"], state["data_groups"], container)
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, **BaseDataSparsifier.state_dict(self)}

    def __repr__(self) -> str:
        hidden = ("data",)
        text = f"{type(self).__name__} ("
        for name, group in self.data_groups.items():
            text += f"\n\tData Group\n\t    name: {name}\n"
            text += "".join(
                f"\t    {key}: {group[key]}\n" for key in sorted(group) if key not in hidden
            )
        return f"{text})"

    def get_mask(self, name: str) -> Tensor:
        """The mask of a name."""
        if name not in self.state:
            raise ValueError("data with specified name does not exist")
        return self.state[name]["mask"]

    def squash_mask(
        self,
        *args: Any,
        leave_parametrized: bool = True,
        names: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Removes the masks of these names, or of all; they are applied if `leave_parametrized`."""
        for name in list(self.data_groups) if names is None else names:
            parametrize.remove_parametrizations(
                self._container, name, leave_parametrized=leave_parametrized
            )

    def step(self) -> None:  # type: ignore[override]
        """Updates all masks, unless updates are off."""
        if not self.enable_mask_update:
            return
        with tritorch.no_grad():
            for name, group in self.data_groups.items():
                self.update_mask(name, self.get_data(name), **group)

    @abc.abstractmethod
    def update_mask(self, name: str, data: Tensor, **kwargs: Any) -> None:  # type: ignore[override]
        """Computes the mask of one name."""

    def _delete_data(self, name: str) -> None:
        """Removes the data of a name; its mask is not applied."""
        self.squash_mask(names=[name], leave_parametrized=False)
        delattr(self._container, name)
        self.state.pop(name)
        self.data_groups.pop(name)
