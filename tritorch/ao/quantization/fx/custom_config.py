"""Configurations of what `fuse_fx`, `prepare_fx` and `convert_fx` treat in their own ways."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

from tritorch.ao.quantization.backend_config import BackendConfig
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.quant_type import (
    QuantType,
    _get_quant_type_to_str,
    _quant_type_from_str,
)

__all__ = [
    "ConvertCustomConfig",
    "FuseCustomConfig",
    "PrepareCustomConfig",
    "StandaloneModuleConfigEntry",
]

STANDALONE_MODULE_NAME_DICT_KEY = "standalone_module_name"
STANDALONE_MODULE_CLASS_DICT_KEY = "standalone_module_class"
FLOAT_TO_OBSERVED_DICT_KEY = "float_to_observed_custom_module_class"
OBSERVED_TO_QUANTIZED_DICT_KEY = "observed_to_quantized_custom_module_class"
NON_TRACEABLE_MODULE_NAME_DICT_KEY = "non_traceable_module_name"
NON_TRACEABLE_MODULE_CLASS_DICT_KEY = "non_traceable_module_class"
INPUT_QUANTIZED_INDEXES_DICT_KEY = "input_quantized_idxs"
OUTPUT_QUANTIZED_INDEXES_DICT_KEY = "output_quantized_idxs"
PRESERVED_ATTRIBUTES_DICT_KEY = "preserved_attributes"

Config = TypeVar("Config")


def _from_dict_or_config(
    value: Any, config_class: type[Config], called: str, function: str, stacklevel: int = 3
) -> Config:
    """A configuration from one, from None (an empty one), or from a dict with a warning."""
    if value is None:
        return config_class()
    if not isinstance(value, dict):
        return value
    warnings.warn(
        f"Passing a {called} to {function} is deprecated and will not be supported "
        f"in a future version. Please pass in a {config_class.__name__} instead.",
        FutureWarning,
        stacklevel=stacklevel,
    )
    return config_class.from_dict(value)  # type: ignore[attr-defined]


class _CustomConfig:
    """Attributes that stay with a model even if its `forward` does not use them."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        filled = {key: value for key, value in self.__dict__.items() if len(value) > 0}
        return f"{type(self).__name__}({filled})"

    def set_preserved_attributes(self, attributes: list[str]) -> Any:
        """Names attributes to keep."""
        self.preserved_attributes = attributes
        return self


def _mapping_to_dict(mapping: dict[QuantType, dict[type, type]]) -> dict[str, dict[type, type]]:
    return {_get_quant_type_to_str(kind): classes for kind, classes in mapping.items()}


@dataclass
class StandaloneModuleConfigEntry:
    """The configuration of a module that is prepared as a model of its own."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None

    def _as_tuple(self, key: Any) -> tuple[Any, ...]:
        """The entry as dicts have it."""
        mapping, custom = self.qconfig_mapping, self.prepare_custom_config
        return (
            key,
            mapping.to_dict() if mapping else None,
            self.example_inputs,
            custom.to_dict() if custom else None,
            self.backend_config,
        )


def _config_or_none(value: Any, config_class: Any, key: str) -> Any:
    """A configuration from one or from a dict, or None."""
    if value is None or isinstance(value, config_class):
        return value
    if isinstance(value, dict):
        return config_class.from_dict(value)
    raise ValueError(
        f'Expected {config_class.__name__} in prepare_custom_config_dict["{key}"], '
        f"got '{type(value)}'"
    )


class PrepareCustomConfig(_CustomConfig):
    """Exceptions for `prepare_fx` and `prepare_qat_fx`: modules that are not traced,
    or prepared as models of their own, or swapped for classes of the user's, and which inputs and
    outputs are quantized. Methods return the configuration, so that calls chain.
    """

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        super().__init__()

    def set_standalone_module_name(
        self,
        module_name: str,
        qconfig_mapping: QConfigMapping | None,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None,
        backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """Prepares the module of a name on its own; None stands for the parent's
        configurations, and for an empty custom one."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self,
        module_class: type,
        qconfig_mapping: QConfigMapping | None,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None,
        backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """Prepares modules of a class on their own, as `set_standalone_module_name` for one."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(
        self,
        float_class: type,
        observed_class: type,
        quant_type: QuantType = QuantType.STATIC,
    ) -> PrepareCustomConfig:
        """Swaps modules of a class by the `from_float` of an observed one; static only."""
        if quant_type != QuantType.STATIC:
            raise ValueError(
                "set_float_to_observed_mapping is currently only supported for static quantization"
            )
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Names modules whose calls are nodes."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Names classes of modules whose calls are nodes."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Says which inputs come quantized; the others are floats."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Says which outputs are quantized; the others are floats."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """A configuration from a dict, with the keys that the module's constants name."""
        given, conf = prepare_custom_config_dict, cls()
        setters: Any = {
            STANDALONE_MODULE_NAME_DICT_KEY: conf.set_standalone_module_name,
            STANDALONE_MODULE_CLASS_DICT_KEY: conf.set_standalone_module_class,
        }
        for key, setter in setters.items():
            for name, mapping, inputs, custom, backend in given.get(key, []):
                setter(
                    name,
                    _config_or_none(mapping, QConfigMapping, key),
                    inputs,
                    _config_or_none(custom, PrepareCustomConfig, key),
                    _config_or_none(backend, BackendConfig, key),
                )
        for kind, classes in given.get(FLOAT_TO_OBSERVED_DICT_KEY, {}).items():
            for float_class, observed_class in classes.items():
                conf.set_float_to_observed_mapping(
                    float_class, observed_class, _quant_type_from_str(kind)
                )
        for key, attribute in cls._lists().items():
            setattr(conf, attribute, given.get(key, []))
        return conf

    @staticmethod
    def _lists() -> dict[str, str]:
        """Attributes that are lists, by their keys in dicts."""
        return {
            NON_TRACEABLE_MODULE_NAME_DICT_KEY: "non_traceable_module_names",
            NON_TRACEABLE_MODULE_CLASS_DICT_KEY: "non_traceable_module_classes",
            INPUT_QUANTIZED_INDEXES_DICT_KEY: "input_quantized_indexes",
            OUTPUT_QUANTIZED_INDEXES_DICT_KEY: "output_quantized_indexes",
            PRESERVED_ATTRIBUTES_DICT_KEY: "preserved_attributes",
        }

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dict for `from_dict`, without what is empty."""
        entries: dict[str, Any] = {
            STANDALONE_MODULE_NAME_DICT_KEY: [
                entry._as_tuple(name) for name, entry in self.standalone_module_names.items()
            ],
            STANDALONE_MODULE_CLASS_DICT_KEY: [
                entry._as_tuple(kind) for kind, entry in self.standalone_module_classes.items()
            ],
            FLOAT_TO_OBSERVED_DICT_KEY: _mapping_to_dict(self.float_to_observed_mapping),
        }
        entries |= {key: getattr(self, attribute) for key, attribute in self._lists().items()}
        return {key: value for key, value in entries.items() if len(value) > 0}


class ConvertCustomConfig(_CustomConfig):
    """Exceptions for `convert_fx`: observed modules of the user's classes."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}
        super().__init__()

    def set_observed_to_quantized_mapping(
        self,
        observed_class: type,
        quantized_class: type,
        quant_type: QuantType = QuantType.STATIC,
    ) -> ConvertCustomConfig:
        """Swaps modules of a class by the `from_observed` of a quantized one."""
        mapping = self.observed_to_quantized_mapping.setdefault(quant_type, {})
        mapping[observed_class] = quantized_class
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """A configuration from a dict, with the keys that the module's constants name."""
        given, conf = convert_custom_config_dict, cls()
        for kind, classes in given.get(OBSERVED_TO_QUANTIZED_DICT_KEY, {}).items():
            for observed_class, quantized_class in classes.items():
                conf.set_observed_to_quantized_mapping(
                    observed_class, quantized_class, _quant_type_from_str(kind)
                )
        conf.set_preserved_attributes(given.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))
        return conf

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dict for `from_dict`, without what is empty."""
        entries: dict[str, Any] = {
            OBSERVED_TO_QUANTIZED_DICT_KEY: _mapping_to_dict(self.observed_to_quantized_mapping),
            PRESERVED_ATTRIBUTES_DICT_KEY: self.preserved_attributes,
        }
        return {key: value for key, value in entries.items() if len(value) > 0}


class FuseCustomConfig(_CustomConfig):
    """Exceptions for `fuse_fx`."""

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """A configuration from a dict."""
        preserved = fuse_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, [])
        return cls().set_preserved_attributes(preserved)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dict for `from_dict`, without what is empty."""
        if not self.preserved_attributes:
            return {}
        return {PRESERVED_ATTRIBUTES_DICT_KEY: self.preserved_attributes}
