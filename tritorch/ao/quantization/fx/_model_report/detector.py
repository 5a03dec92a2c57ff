"""Detectors of what in a model might be quantized better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.quantization.fake_quantize import FakeQuantize
from tritorch.ao.quantization.fx._model_report._base import (
    DETECTOR_IS_POST_OBS_KEY,  # noqa: F401
    DETECTOR_OBS_ARGS_KEY,  # noqa: F401
    DETECTOR_OBS_TO_INSERT_KEY,  # noqa: F401
    DETECTOR_TARGET_NODE_KEY,  # noqa: F401
    LAYERS,
    DetectorBase,
    DetectorQConfigInfo,
    Report,
    recommendations,
)
from tritorch.ao.quantization.fx._model_report.model_report_observer import ModelReportObserver
from tritorch.ao.quantization.observer import ObserverBase, _is_activation_post_process
from tritorch.ao.quantization.qconfig import QConfig
from tritorch.fx import GraphModule
from tritorch.nn import Conv1d, Conv2d, Conv3d, Linear, Module

_Info = dict[str, dict[str, Any]]
_PRE = "model_report_pre_observer"


class PerChannelDetector(DetectorBase):
    """Finds modules whose weights could be quantized per channel by a backend, and are not."""

    BACKEND_KEY = "backend"
    PER_CHAN_SUPPORTED_KEY = "per_channel_quantization_supported"
    PER_CHAN_USED_KEY = "per_channel_quantization_used"

    DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES: dict[str, set[Any]] = {  # noqa: RUF012
        backend: set(LAYERS) for backend in ("fbgemm", "qnnpack", "onednn", "x86")
    }

    def __init__(self, backend: str = tritorch.backends.quantized.engine) -> None:
        super().__init__()
        self.backend_chosen = backend
        if backend not in self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES:
            raise ValueError(
                f"Not configured to work with {backend}. Try a different default backend"
            )
        self.supported_modules = self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES[backend]

    def get_detector_name(self) -> str:
        """The name of the report."""
        return "per_channel_detector"

    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """Quantization per channel for all that support it."""
        found = self._detect_per_channel_helper(model)
        return recommendations(found, self.PER_CHAN_SUPPORTED_KEY, "is_weight_per_channel")

    def determine_observer_insert_points(self, model: Module) -> dict[str, Any]:
        """None: the report is from the model alone."""
        return {}

    def _detect_per_channel_helper(self, model: Module) -> _Info:
        """True if modules' weights are quantized per channel, by their paths."""
        found = {}
        for path, module in model.named_modules():
            if not isinstance(module, tuple(self.supported_modules)):
                continue
            if not isinstance(module.qconfig, QConfig):
                raise AssertionError("module.qconfig must be a QConfig")
            watcher: Any = module.qconfig.weight.p.func()
            if not isinstance(watcher, (FakeQuantize, ObserverBase)):
                raise AssertionError("module.qconfig.weight must be a FakeQuantize or ObserverBase")
            used = hasattr(watcher, "ch_axis")
            if used and isinstance(watcher, FakeQuantize):
                used = bool(getattr(watcher, "is_per_channel", False))
            found[path] = {
                self.PER_CHAN_SUPPORTED_KEY: True,
                self.PER_CHAN_USED_KEY: used,
                self.BACKEND_KEY: self.backend_chosen,
            }
        return found

    def generate_detector_report(self, model: Module) -> Report:
        """The modules that could be quantized per channel."""
        found = self._detect_per_channel_helper(model)
        possible = [
            f"Module {path} can be configured to use per_channel quantization.\n"
            for path, entry in found.items()
            if entry[self.PER_CHAN_SUPPORTED_KEY] and not entry[self.PER_CHAN_USED_KEY]
        ]
        ending = "No further per_channel optimizations possible."
        if possible:
            ending = (
                "To use per_channel quantization, make sure the qconfig has a per_channel "
                "weight observer."
            )
        start = f"Further Optimizations for backend {self.backend_chosen}: \n"
        return start + "".join(possible) + ending, found


class DynamicStaticDetector(DetectorBase):
    """Says of layers whether to quantize them dynamically: if outputs are not stationary, which
    they are if the mean range of batches is more than the part `tolerance` of the range of all."""

    DEFAULT_PRE_OBSERVER_NAME = _PRE
    DEFAULT_POST_OBSERVER_NAME = "model_report_post_observer"

    STATIONARY_STR = "stationary"
    NON_STATIONARY_STR = "non-stationary"

    INPUT_ACTIVATION_PREFIX = "input_activation_"
    OUTPUT_ACTIVATION_PREFIX = "output_activation_"

    TOLERANCE_KEY = "dynamic_static_tolerance"
    DEFAULT_DYNAMIC_REC_KEY = "dynamic_recommended"
    PRE_OBS_COMP_STAT_KEY = INPUT_ACTIVATION_PREFIX + "dynamic_static_comp_stat"
    POST_OBS_COMP_STAT_KEY = OUTPUT_ACTIVATION_PREFIX + "dynamic_static_comp_stat"
    PRE_OBS_DATA_DIST_KEY = INPUT_ACTIVATION_PREFIX + "dynamic_static_data_classification"
    POST_OBS_DATA_DIST_KEY = OUTPUT_ACTIVATION_PREFIX + "dynamic_static_data_classification"
    IS_CURRENTLY_SUPPORTED_KEY = "is_dynamic_supported"

    DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED = {Linear}  # noqa: RUF012
    DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED = {Conv1d, Conv2d, Conv3d}  # noqa: RUF012

    def __init__(self, tolerance: float = 0.5) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.useful_observer_fqns: set[str] = set()

    def determine_observer_insert_points(self, prepared_fx_model: GraphModule) -> _Info:
        """Observers before and after all layers."""
        points = {}
        for path, module in prepared_fx_model.named_modules():
            if self._is_supported(module, insert=True):
                node = self._get_targeting_node(prepared_fx_model, path)
                for name, after in (
                    (self.DEFAULT_PRE_OBSERVER_NAME, False),
                    (self.DEFAULT_POST_OBSERVER_NAME, True),
                ):
                    points[f"{path}.{name}"] = self._insertion(node, ModelReportObserver(), after)
        return points

    def get_detector_name(self) -> str:
        """The name of the report."""
        return "dynamic_vs_static_detector"

    def get_qconfig_info(self, model: GraphModule) -> dict[str, DetectorQConfigInfo]:
        """Dynamic quantization where it is better."""
        found = self._generate_dict_info(model)
        return recommendations(found, self.DEFAULT_DYNAMIC_REC_KEY, "is_activation_dynamic")

    def _is_supported(self, module: Any, insert: bool = False) -> bool:
        """True if a module is a layer; if not `insert`, one with observers."""
        kinds = self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED
        later = self.DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED
        names = (self.DEFAULT_PRE_OBSERVER_NAME, self.DEFAULT_POST_OBSERVER_NAME)
        return isinstance(module, (*kinds, *later)) and (
            insert or all(hasattr(module, name) for name in names)
        )

    def _generate_dict_info(self, model: GraphModule) -> _Info:
        """The kind of data before and after layers, by their paths."""
        found = {}
        for path, module in model.named_modules():
            if not self._is_supported(module):
                continue
            before, after = (
                getattr(module, name).get_batch_to_epoch_ratio()
                for name in (self.DEFAULT_PRE_OBSERVER_NAME, self.DEFAULT_POST_OBSERVER_NAME)
            )
            kinds = [
                self.STATIONARY_STR if ratio > self.tolerance else self.NON_STATIONARY_STR
                for ratio in (before, after)
            ]
            supported = tuple(self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED)
            found[path] = {
                self.TOLERANCE_KEY: self.tolerance,
                self.DEFAULT_DYNAMIC_REC_KEY: after <= self.tolerance,
                self.PRE_OBS_COMP_STAT_KEY: before,
                self.PRE_OBS_DATA_DIST_KEY: kinds[0],
                self.POST_OBS_COMP_STAT_KEY: after,
                self.POST_OBS_DATA_DIST_KEY: kinds[1],
                self.IS_CURRENTLY_SUPPORTED_KEY: isinstance(module, supported),
            }
        return found

    def generate_detector_report(self, model: GraphModule) -> Report:
        """A suggestion for each layer, with the reason."""
        found = self._generate_dict_info(model)
        text = "Dynamic vs. Static Quantization suggestions: \n"
        for path, entry in found.items():
            before, after = entry[self.PRE_OBS_DATA_DIST_KEY], entry[self.POST_OBS_DATA_DIST_KEY]
            kind = "dynamic" if entry[self.DEFAULT_DYNAMIC_REC_KEY] else "static"
            reason = (
                f"the distribution of data before {path} is {before} and the distribution after is "
                f"{after}."
            )
            if kind == "static":
                reason += " You can increase model efficiency if you use static quantization"
            else:
                reason += " You will get more accurate results if you use dynamic quantization"
                if not entry[self.IS_CURRENTLY_SUPPORTED_KEY]:
                    reason += ". This layer is not yet supported for dynamic quantization"
            if (before, after) == (self.NON_STATIONARY_STR, self.STATIONARY_STR):
                reason += (
                    ". We recommend to add a dynamic quantize per tensor layer before this module "
                    "if it is static. This is because the input to this module has a "
                    "non-stationary distribution"
                )
            text += (
                f"For module {path} it is suggested to use {kind} quantization because {reason}.\n"
            )
        if not found:
            text += "No applicable layers for suggestions. Only linear and conv are valid.\n"
        return text, found


class InputWeightEqualizationDetector(DetectorBase):
    """Says of layers whether to equalize them: if for enough channels the ratio of the parts that a
    channel has of the ranges of weight and input is between `ratio_threshold` and its inverse."""

    SUPPORTED_MODULES: set[Callable[..., Any]] = set(LAYERS)  # noqa: RUF012

    DEFAULT_PRE_OBSERVER_NAME: str = _PRE

    WEIGHT_PREFIX = "weight_"
    ACTIVATION_PREFIX = "input_activation_"

    PER_CHANNEL_MAX_KEY = "per_channel_max"
    PER_CHANNEL_MIN_KEY = "per_channel_min"
    GLOBAL_MAX_KEY = "global_max"
    GLOBAL_MIN_KEY = "global_min"

    RECOMMENDED_KEY = "input_weight_equalization_recommended"
    COMP_METRIC_KEY = "input_weight_channel_comparison_metrics"
    THRESHOLD_KEY = "input_weight_threshold"
    CHANNEL_KEY = "input_weight_channel_axis"

    WEIGHT_STR = "weight"
    INPUT_STR = "input"

    DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO = 0.4

    def __init__(self, ratio_threshold: float, ch_axis: int = 1) -> None:
        if ratio_threshold <= 0 or ratio_threshold >= 1:
            raise ValueError("Make sure threshold is > 0 and < 1")
        self.ratio_threshold: float = ratio_threshold
        self.ch_axis: int = ch_axis

    def _is_supported(self, module: Any, insert: bool = False) -> bool:
        """True if a module is a layer; if not `insert`, one with an observer."""
        has_observer = insert or hasattr(module, self.DEFAULT_PRE_OBSERVER_NAME)
        return type(module) in self.SUPPORTED_MODULES and has_observer

    def get_qconfig_info(self, model: GraphModule) -> dict[str, DetectorQConfigInfo]:
        """Equalization where it is better."""
        found = self._found(model)
        return recommendations(found, self.RECOMMENDED_KEY, "is_equalization_recommended")

    def determine_observer_insert_points(self, prepared_fx_model: GraphModule) -> _Info:
        """Observers before all layers."""
        return {
            f"{path}.{self.DEFAULT_PRE_OBSERVER_NAME}": self._insertion(
                self._get_targeting_node(prepared_fx_model, path),
                ModelReportObserver(ch_axis=self.ch_axis),
            )
            for path, module in prepared_fx_model.named_modules()
            if self._is_supported(module, insert=True)
        }

    def get_detector_name(self) -> str:
        """The name of the report."""
        return "input_weight_equalization_detector"

    def _ranges(self, prefix: str, low: Tensor, high: Tensor) -> dict[str, Any]:
        return {
            prefix + self.PER_CHANNEL_MAX_KEY: high,
            prefix + self.PER_CHANNEL_MIN_KEY: low,
            prefix + self.GLOBAL_MAX_KEY: max(high),
            prefix + self.GLOBAL_MIN_KEY: min(low),
        }

    def _extract_input_info(self, model: GraphModule) -> _Info:
        """Ranges of layers' inputs, by their paths."""
        observers = {
            path: getattr(module, self.DEFAULT_PRE_OBSERVER_NAME)
            for path, module in model.named_modules()
            if self._is_supported(module)
        }
        return {
            path: self._ranges(self.ACTIVATION_PREFIX, observer.min_val, observer.max_val)
            for path, observer in observers.items()
        }

    def _extract_weight_info(self, model: GraphModule) -> _Info:
        """Ranges of layers' weights, by their paths."""
        found = {}
        for path, module in model.named_modules():
            if self._is_supported(module):
                rows = module.weight.transpose(0, self.ch_axis).float().flatten(start_dim=1)
                found[path] = self._ranges(self.WEIGHT_PREFIX, *tritorch.aminmax(rows, dim=1))
        return found

    def _calculate_range_ratio(
        self, info_dict: dict[str, Any], info_str: str, module_fqn: str
    ) -> Tensor:
        """The parts that channels' ranges have of the whole range."""
        prefix = self.ACTIVATION_PREFIX if info_str == self.INPUT_STR else self.WEIGHT_PREFIX
        channels: Tensor = (
            info_dict[prefix + self.PER_CHANNEL_MAX_KEY]
            - info_dict[prefix + self.PER_CHANNEL_MIN_KEY]
        )
        whole = info_dict[prefix + self.GLOBAL_MAX_KEY] - info_dict[prefix + self.GLOBAL_MIN_KEY]
        if whole == 0:
            raise ValueError(
                f"The range of the {info_str} data for module {module_fqn} is 0, "
                "which means you have a constant value channel. We recommend removing this channel "
                "as it doesn't provide any useful information."
            )
        return channels / whole

    def _generate_comparison_values(
        self, input_info: _Info, weight_info: _Info
    ) -> dict[str, Tensor]:
        """The ratios of the roots of these parts, of weight and input, by the paths of layers."""
        ratios = {}
        for path, info in input_info.items():
            if path not in weight_info:
                raise KeyError(f"Unable to find weight range stats for module {path}")
            of_weight = self._calculate_range_ratio(weight_info[path], self.WEIGHT_STR, path)
            of_input = self._calculate_range_ratio(info, self.INPUT_STR, path)
            if len(of_weight) != len(of_input):  # groups share a weight's channels
                if len(of_input) % len(of_weight) != 0:
                    raise AssertionError("input channels should be divisible by weight channels.")
                of_weight = of_weight.repeat(len(of_input) // len(of_weight))
            ratios[path] = tritorch.sqrt(of_weight) / tritorch.sqrt(of_input)
        return ratios

    def _generate_dict_info(
        self, input_info: _Info, weight_info: _Info, comp_stats: dict[str, Tensor]
    ) -> _Info:
        """Recommendations for each channel, and what they are from, by the paths of layers."""
        least = self.ratio_threshold
        return {
            path: {
                self.RECOMMENDED_KEY: [
                    least <= value.item() <= 1 / least for value in comp_stats[path]
                ],
                self.COMP_METRIC_KEY: comp_stats[path],
                self.THRESHOLD_KEY: least,
                self.CHANNEL_KEY: self.ch_axis,
                **info,
                **weight_info[path],
            }
            for path, info in input_info.items()
        }

    def _found(self, model: GraphModule) -> _Info:
        of_input, of_weight = self._extract_input_info(model), self._extract_weight_info(model)
        ratios = self._generate_comparison_values(of_input, of_weight)
        return self._generate_dict_info(of_input, of_weight, ratios)

    def generate_detector_report(self, model: GraphModule) -> Report:
        """A suggestion for each layer, with the number of channels that are better."""
        found = self._found(model)
        text = "Input-Weight Equalization suggestions: \n"
        for path, entry in found.items():
            channels = entry[self.RECOMMENDED_KEY]
            better = f"{sum(channels)}/{len(channels)} channels"
            enough = self.DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO
            if sum(channels) / len(channels) >= enough:
                advice = (
                    f"to use input weight equalization because {better} would benefit and we "
                    "expect significant reduction in quantization error."
                )
            else:
                advice = (
                    "to not use input weight equalization because we don't expect much improvement "
                    f"from input-weight equalization based on {better} benefitting from "
                    "input-weight equalization being applied."
                )
            text += f"For Module {path} looked at with axis {self.ch_axis}: \n"
            text += f"\tWe suggest {advice}\n"
        if not found:
            text += "No applicable layers for suggestions. Only linear and conv valid.\n"
        return text, found


class OutlierDetector(DetectorBase):
    """Finds channels whose largest values are more than `ratio_threshold` times their percentile
    `reference_percentile`, on average over batches.

    It is sure if the part `fraction_batches_used_threshold` of the batches was not zero.
    """

    DEFAULT_PRE_OBSERVER_NAME: str = _PRE
    INPUT_ACTIVATION_PREFIX = "input_activation_"

    OUTLIER_KEY = "outliers_detected"
    NUM_BATCHES_KEY = "outlier_detection_batches_used"
    IS_SUFFICIENT_BATCHES_KEY = "outlier_detection_is_sufficient_batches"
    COMP_METRIC_KEY = "outlier_detection_percentile_ratios"
    RATIO_THRES_KEY = "outlier_detection_ratio_threshold"
    REF_PERCENTILE_KEY = "outlier_detection_reference_percentile"
    CHANNEL_AXIS_KEY = "outlier_detection_channel_axis"
    MAX_VALS_KEY = INPUT_ACTIVATION_PREFIX + "per_channel_max"
    CONSTANT_COUNTS_KEY = "constant_batch_counts"

    def __init__(
        self,
        ratio_threshold: float = 3.5,
        reference_percentile: float = 0.975,
        fraction_batches_used_threshold: float = 0.95,
        ch_axis: int = 1,
    ) -> None:
        for name, value in (
            ("reference_percentile", reference_percentile),
            ("fraction_batches_used_threshold", fraction_batches_used_threshold),
        ):
            if not 0 <= value <= 1:
                raise AssertionError(f"{name} must be between 0 and 1")
        self.ratio_threshold = ratio_threshold
        self.reference_percentile = reference_percentile
        self.fraction_batches_used_threshold = fraction_batches_used_threshold
        self.ch_axis = ch_axis

    def get_detector_name(self) -> str:
        """The name of the report."""
        return "outlier_detector"

    def _supports_insertion(self, module: Module) -> bool:
        return not list(module.children()) and not _is_activation_post_process(module)

    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Nothing: outliers are the user's matter."""
        return {}

    def _supports_report_gen(self, module: Module) -> bool:
        return hasattr(module, self.DEFAULT_PRE_OBSERVER_NAME)

    def determine_observer_insert_points(self, prepared_fx_model: GraphModule) -> _Info:
        """Observers before all modules without modules in them."""
        return {
            f"{path}.{self.DEFAULT_PRE_OBSERVER_NAME}": self._insertion(
                self._get_targeting_node(prepared_fx_model, path),
                ModelReportObserver(
                    ch_axis=self.ch_axis, comp_percentile=self.reference_percentile
                ),
            )
            for path, module in prepared_fx_model.named_modules()
            if self._supports_insertion(module)
        }

    def _calculate_outlier_info(
        self, percentile_ratios: Tensor, counted_batches: Tensor, total_batches: int
    ) -> dict[str, list[bool]]:
        """True if channels have outliers, and whether this is sure."""
        enough = self.fraction_batches_used_threshold
        return {
            self.OUTLIER_KEY: [
                ratio > self.ratio_threshold for ratio in percentile_ratios.tolist()
            ],
            self.IS_SUFFICIENT_BATCHES_KEY: [
                count / total_batches >= enough for count in counted_batches.tolist()
            ],
        }

    def _generate_info_dict(self, model: GraphModule) -> _Info:
        """Outliers and what they are found by, by the paths of modules."""
        found = {}
        for path, module in model.named_modules():
            if not self._supports_report_gen(module):
                continue
            observer: ModelReportObserver = getattr(module, self.DEFAULT_PRE_OBSERVER_NAME)
            ratios = observer.average_percentile_ratio
            for index, ratio in enumerate(ratios.tolist()):
                size = abs(ratio)
                if size < 1:  # the largest value is nearer to zero
                    size = 1 / size if size else float("inf")
                ratios[index] = size
            counted = observer.percentile_batches_tracked
            found[path] = {
                self.CHANNEL_AXIS_KEY: self.ch_axis,
                self.REF_PERCENTILE_KEY: self.reference_percentile,
                self.RATIO_THRES_KEY: self.ratio_threshold,
                self.COMP_METRIC_KEY: ratios,
                self.NUM_BATCHES_KEY: counted,
                **self._calculate_outlier_info(ratios, counted, observer.num_batches_tracked),
                self.CONSTANT_COUNTS_KEY: observer.constant_channels,
                self.MAX_VALS_KEY: observer.max_val,
            }
        return found

    def generate_detector_report(self, model: GraphModule) -> Report:
        """The channels with outliers, and those that were constant."""
        found = self._generate_info_dict(model)
        text = "Outlier detection report: \n"
        any_channel = False
        for path, entry in found.items():
            lines = ""
            constant, largest = entry[self.CONSTANT_COUNTS_KEY], entry[self.MAX_VALS_KEY]
            for index, is_outlier in enumerate(entry[self.OUTLIER_KEY]):
                if is_outlier:
                    lines += (
                        f"\tFor channel {index}, we found outliers in the preceding activation "
                        f"data with a max value across all batches of {largest[index]}.\n"
                    )
                if constant[index] != 0:
                    lines += (
                        f"\tFor channel {index}, we found {constant[index]} constant value "
                        "batches. We recommend taking a look at the dict and data to see how "
                        "frequent this occurred and why.\n"
                    )
            if lines:
                any_channel = True
                text += f"For Module {path} looked at with axis {self.ch_axis}: \n{lines}"
        if any_channel:
            text += (
                "Note: outlier detection is only reliable for stationary distributions. We "
                "recommend running the static vs. dynamic detector to ensure activation data "
                "before modules above is stationary to ensure the most accurate results."
            )
        else:
            text += "There were no outliers found in the activations.\n"
        return text, found
