"""Descriptions of what an engine quantizes: patterns of operators, and dtypes for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import tritorch as torch

__all__ = [
    "BackendConfig",
    "BackendPatternConfig",
    "DTypeConfig",
    "DTypeWithConstraints",
    "ObservationType",
]

# Keys of `to_dict`.
INPUT_DTYPE_DICT_KEY = "input_dtype"
OUTPUT_DTYPE_DICT_KEY = "output_dtype"
WEIGHT_DTYPE_DICT_KEY = "weight_dtype"
BIAS_DTYPE_DICT_KEY = "bias_dtype"
IS_DYNAMIC_DICT_KEY = "is_dynamic"
NAME_DICT_KEY = "name"
CONFIGS_DICT_KEY = "configs"
PATTERN_DICT_KEY = "pattern"
PATTERN_COMPLEX_FORMAT_DICT_KEY = "pattern_complex_format"
OBSERVATION_TYPE_DICT_KEY = "observation_type"
DTYPE_CONFIGS_DICT_KEY = "dtype_configs"
ROOT_MODULE_DICT_KEY = "root_module"
QAT_MODULE_DICT_KEY = "qat_module"
REFERENCE_QUANTIZED_MODULE_DICT_KEY = "reference_quantized_module_for_root"
FUSED_MODULE_DICT_KEY = "fused_module"
FUSER_METHOD_DICT_KEY = "fuser_method"
ROOT_NODE_GETTER_DICT_KEY = "root_node_getter"
EXTRA_INPUTS_GETTER_DICT_KEY = "extra_inputs_getter"
NUM_TENSOR_ARGS_TO_OBSERVATION_TYPE_DICT_KEY = "num_tensor_args_to_observation_type"
INPUT_TYPE_TO_INDEX_DICT_KEY = "input_type_to_index"


class ObservationType(Enum):
    """Observers of a pattern: of input and output apart (conv), one for both (cat), or none
    (size)."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype, bounds of the integers and of the scale, and a scale and zero point that must be.

    A QConfig that does not fit is not used. Exact ones are for operators of known range."""

    dtype: torch.dtype | None = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(dtype: Any) -> DTypeWithConstraints:
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype)


@dataclass
class DTypeConfig:
    """dtypes that a pattern's input, output, weight and bias are quantized to, as observers say
    them; a QConfig with these is used for the pattern."""

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: torch.dtype | None
    is_dynamic: bool | None

    def __init__(
        self,
        input_dtype: torch.dtype | DTypeWithConstraints | None = None,
        output_dtype: torch.dtype | DTypeWithConstraints | None = None,
        weight_dtype: torch.dtype | DTypeWithConstraints | None = None,
        bias_dtype: torch.dtype | None = None,
        is_dynamic: bool | None = None,
    ) -> None:
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype = bias_dtype
        self.is_dynamic = is_dynamic

    @property
    def input_dtype(self) -> torch.dtype | None:
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> torch.dtype | None:
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> torch.dtype | None:
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """Reads "input_dtype", "output_dtype", "weight_dtype", "bias_dtype" and "is_dynamic"."""
        for key in (INPUT_DTYPE_DICT_KEY, OUTPUT_DTYPE_DICT_KEY, WEIGHT_DTYPE_DICT_KEY):
            value = dtype_config_dict.get(key)
            if value is not None and not isinstance(value, (torch.dtype, DTypeWithConstraints)):
                raise ValueError(f"Expected {key} to be a torch.dtype or DTypeWithConstraints")
        return cls(
            *(
                dtype_config_dict.get(key)
                for key in (
                    INPUT_DTYPE_DICT_KEY,
                    OUTPUT_DTYPE_DICT_KEY,
                    WEIGHT_DTYPE_DICT_KEY,
                    BIAS_DTYPE_DICT_KEY,
                    IS_DYNAMIC_DICT_KEY,
                )
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns what `from_dict` reads, without what is not set."""
        out: dict[str, Any] = {}
        for key in (INPUT_DTYPE_DICT_KEY, OUTPUT_DTYPE_DICT_KEY, WEIGHT_DTYPE_DICT_KEY):
            if getattr(self, key) is not None:
                out[key] = getattr(self, key + "_with_constraints")
        for key in (BIAS_DTYPE_DICT_KEY, IS_DYNAMIC_DICT_KEY):
            if getattr(self, key) is not None:
                out[key] = getattr(self, key)
        return out


class BackendConfig:
    """Patterns that an engine quantizes, and how each becomes a reference model.

    BackendConfig("mine").set_backend_pattern_config(
        BackendPatternConfig(torch.nn.Linear)
        .add_dtype_config(DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float))
        .set_root_module(torch.nn.Linear)
        .set_reference_quantized_module(torch.ao.nn.quantized.reference.Linear)
    )
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """Sets the engine's name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Sets how a pattern is quantized, in place of what was set for it before."""
        pattern = _get_pattern_in_reversed_nested_tuple_format(config)
        self._pattern_complex_format_to_config[pattern] = config
        return self

    def set_backend_pattern_configs(self, configs: Iterable[BackendPatternConfig]) -> BackendConfig:
        """Sets how patterns are quantized, in order."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """A list of what was set."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """Reads "name" and "configs", a list of dicts or BackendPatternConfigs."""
        out = cls(backend_config_dict.get(NAME_DICT_KEY, ""))
        for entry in backend_config_dict.get(CONFIGS_DICT_KEY, []):
            if isinstance(entry, dict):
                entry = BackendPatternConfig.from_dict(entry)
            if not isinstance(entry, BackendPatternConfig):
                raise ValueError(
                    f"Expected backend_config_dict['{CONFIGS_DICT_KEY}'] to be a dictionary"
                )
            out.set_backend_pattern_config(entry)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Returns what `from_dict` reads."""
        return {
            NAME_DICT_KEY: self.name,
            CONFIGS_DICT_KEY: [config.to_dict() for config in self.configs],
        }


# Keys of a pattern's dict with the attributes that they are; the last ones may be empty dicts.
_FIELDS = {
    PATTERN_DICT_KEY: "pattern",
    ROOT_MODULE_DICT_KEY: "root_module",
    QAT_MODULE_DICT_KEY: "qat_module",
    REFERENCE_QUANTIZED_MODULE_DICT_KEY: "reference_quantized_module",
    FUSED_MODULE_DICT_KEY: "fused_module",
    FUSER_METHOD_DICT_KEY: "fuser_method",
    ROOT_NODE_GETTER_DICT_KEY: "_root_node_getter",
    EXTRA_INPUTS_GETTER_DICT_KEY: "_extra_inputs_getter",
    NUM_TENSOR_ARGS_TO_OBSERVATION_TYPE_DICT_KEY: "_num_tensor_args_to_observation_type",
    INPUT_TYPE_TO_INDEX_DICT_KEY: "_input_type_to_index",
    PATTERN_COMPLEX_FORMAT_DICT_KEY: "_pattern_complex_format",
}


class BackendPatternConfig:
    """A pattern's quantization. The pattern is a module's class, a function, an operator, or two
    or three in a row. Methods return the config, so that they chain."""

    def __init__(self, pattern: Any = None) -> None:
        self.pattern: Any = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Callable[..., Any] | None = None
        self._root_node_getter: Callable[..., Any] | None = None
        self._extra_inputs_getter: Callable[..., Any] | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        stated = {
            name: value
            for name, value in self.__dict__.items()
            if value is not None and not (isinstance(value, (list, dict)) and not value)
        }
        return f"BackendPatternConfig({stated})"

    def _set(self, name: str, value: Any) -> BackendPatternConfig:
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """Sets the pattern: one operator, or a tuple of two or three in the order of the calls."""
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("pattern", pattern)

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        """Sets the pattern as nested tuples, the last call first: `(relu, (bn, conv))`."""
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("_pattern_complex_format", pattern)

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """Sets which observers the pattern's input and output have."""
        return self._set("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """Adds dtypes that the engine takes."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """Sets the dtypes that the engine takes."""
        return self._set("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: Any) -> BackendPatternConfig:
        """Sets the module of the pattern that has the weight, as Linear of LinearReLU."""
        return self._set("root_module", root_module)

    def set_qat_module(self, qat_module: Any) -> BackendPatternConfig:
        """Sets the class that is trained in the pattern's place."""
        return self._set("qat_module", qat_module)

    def set_reference_quantized_module(
        self, reference_quantized_module: Any
    ) -> BackendPatternConfig:
        """Sets the class that takes the root module's place in the reference model."""
        return self._set("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module: Any) -> BackendPatternConfig:
        """Sets the class that the pattern's modules are fused into."""
        return self._set("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> BackendPatternConfig:
        """Sets the function that fuses: of is_qat and the pattern's modules."""
        return self._set("fuser_method", fuser_method)

    def _set_root_node_getter(self, root_node_getter: Any) -> BackendPatternConfig:
        return self._set("_root_node_getter", root_node_getter)

    def _set_extra_inputs_getter(self, extra_inputs_getter: Any) -> BackendPatternConfig:
        return self._set("_extra_inputs_getter", extra_inputs_getter)

    def _set_num_tensor_args_to_observation_type(
        self, num_tensor_args_to_observation_type: dict[int, ObservationType]
    ) -> BackendPatternConfig:
        return self._set(
            "_num_tensor_args_to_observation_type", num_tensor_args_to_observation_type
        )

    def _set_input_type_to_index(self, input_type_to_index: dict[str, int]) -> BackendPatternConfig:
        return self._set("_input_type_to_index", input_type_to_index)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """Reads what `to_dict` returns; dtypes may be dicts or DTypeConfigs."""
        given = backend_pattern_config_dict
        out = cls()
        if OBSERVATION_TYPE_DICT_KEY in given:
            out.set_observation_type(given[OBSERVATION_TYPE_DICT_KEY])
        for entry in given.get(DTYPE_CONFIGS_DICT_KEY, []):
            if isinstance(entry, dict):
                entry = DTypeConfig.from_dict(entry)
            if not isinstance(entry, DTypeConfig):
                raise ValueError(
                    "Expected a list of DTypeConfigs in "
                    f'backend_pattern_config_dict["{DTYPE_CONFIGS_DICT_KEY}"], '
                    f"got '{type(entry)}'"
                )
            out.add_dtype_config(entry)
        if {PATTERN_DICT_KEY, PATTERN_COMPLEX_FORMAT_DICT_KEY} <= given.keys():
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        for key, name in _FIELDS.items():
            if key in given:
                setattr(out, name, given[key])
        return out

    def to_dict(self) -> dict[str, Any]:
        """Returns what was set, modules and functions as they are."""
        out: dict[str, Any] = {
            OBSERVATION_TYPE_DICT_KEY: self.observation_type,
            DTYPE_CONFIGS_DICT_KEY: [config.to_dict() for config in self.dtype_configs],
        }
        for key, name in _FIELDS.items():
            value = getattr(self, name)
            if value is not None and value != {}:
                out[key] = value
        return out


def _get_pattern_in_reversed_nested_tuple_format(config: BackendPatternConfig) -> Any:
    """A pattern with the last call first: (b, a) of (a, b), (c, (b, a)) of (a, b, c)."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    match config.pattern:
        case None:
            raise ValueError("Either 'pattern' or 'pattern_complex_format' must be specified")
        case (a, b):
            return (b, a)
        case (a, b, c):
            return (c, (b, a))
        case tuple():
            raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {config.pattern}")
    return config.pattern
