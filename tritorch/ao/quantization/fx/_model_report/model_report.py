"""Reports of several detectors on one model, and configurations from them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tritorch import Tensor
from tritorch.ao.quantization.fx._equalize import EqualizationQConfig
from tritorch.ao.quantization.fx._model_report._base import Report
from tritorch.ao.quantization.fx._model_report.detector import (
    DETECTOR_IS_POST_OBS_KEY,
    DETECTOR_OBS_ARGS_KEY,
    DETECTOR_OBS_TO_INSERT_KEY,
    DETECTOR_TARGET_NODE_KEY,
    DetectorBase,
    DetectorQConfigInfo,
)
from tritorch.ao.quantization.fx._model_report.model_report_visualizer import (
    ModelReportVisualizer,
)
from tritorch.ao.quantization.observer import ObserverBase
from tritorch.ao.quantization.qconfig import QConfig
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Module


class ModelReport:
    """Inserts the observers of detectors into a graph, and makes reports of what they saw.

        report = ModelReport(prepared, {DynamicStaticDetector(), OutlierDetector()})
        observed = report.prepare_detailed_calibration()
        for x in samples:
            observed(x)
        texts = report.generate_model_report(remove_inserted_observers=False)
        mapping = report.generate_qconfig_mapping()

    Of a type of detector there is one at most.
    """

    def __init__(self, model: GraphModule, desired_report_detectors: set[DetectorBase]) -> None:
        if len(desired_report_detectors) == 0:
            raise ValueError("Should include at least 1 desired report")
        self._model: GraphModule = model
        self._desired_report_detectors = desired_report_detectors
        self._desired_detector_names = {
            detector.get_detector_name() for detector in desired_report_detectors
        }
        self._detector_name_to_observer_fqns: dict[str, set[str]] = {
            name: set() for name in self._desired_detector_names
        }
        self._prepared_flag = False
        self._removed_observers = False
        self._generated_reports: dict[str, dict[str, Any]] = {}

    def get_desired_reports_names(self) -> set[str]:
        """The names of the reports."""
        return self._desired_detector_names.copy()

    def get_observers_of_interest(self) -> dict[str, set[str]]:
        """The paths of the observers that were inserted, by report."""
        return self._detector_name_to_observer_fqns.copy()

    def prepare_detailed_calibration(self) -> GraphModule:
        """Inserts all observers, once; what two detectors want at one path is inserted once."""
        if self._prepared_flag:
            raise ValueError(
                "Already ran preparing detailed calibration. Run the report generation next "
                "after calibration."
            )
        points: dict[str, Any] = {}
        for detector in self._desired_report_detectors:
            wanted = detector.determine_observer_insert_points(self._model)
            points.update(wanted)
            self._detector_name_to_observer_fqns[detector.get_detector_name()] = set(wanted)
        for path, point in points.items():
            self._insert_observer_around_module(
                path,
                point[DETECTOR_TARGET_NODE_KEY],
                point[DETECTOR_OBS_TO_INSERT_KEY],
                point[DETECTOR_OBS_ARGS_KEY],
                point[DETECTOR_IS_POST_OBS_KEY],
            )
        self._prepared_flag = True
        return self._model

    def _insert_observer_around_module(
        self,
        obs_fqn: str,
        target_node: Node,
        obs_to_insert: ObserverBase,
        observer_args: tuple[Any, ...],
        insert_post: bool,
    ) -> None:
        """Calls an observer before or after a node."""
        where = target_node.next if insert_post else target_node
        with self._model.graph.inserting_before(where):
            self._model.add_submodule(obs_fqn, obs_to_insert)
            self._model.graph.create_node(op="call_module", target=obs_fqn, args=observer_args)
        self._model.recompile()

    def _get_node_from_fqn(self, node_fqn: str) -> Node:
        """The node that calls the module of a path."""
        for node in self._model.graph.nodes:
            if node.target == node_fqn:
                return node
        raise ValueError("The node_fqn is was not found within the module.")

    def _check_ready(self) -> None:
        """Raises if there are no observers, yet or any more."""
        if not self._prepared_flag:
            raise Exception("Cannot generate report without preparing model for calibration")
        if self._removed_observers:
            raise Exception("Cannot generate report on model you already removed observers from")

    def generate_model_report(self, remove_inserted_observers: bool) -> dict[str, Report]:
        """All reports, by their names: texts, and what they are from."""
        self._check_ready()
        reports = {
            detector.get_detector_name(): detector.generate_detector_report(self._model)
            for detector in self._desired_report_detectors
        }
        if remove_inserted_observers:
            self._removed_observers = True
            for path in set().union(*self._detector_name_to_observer_fqns.values()):
                self._model.delete_submodule(path)
                self._model.graph.erase_node(self._get_node_from_fqn(path))
            self._model.recompile()
        self._generated_reports = {name: report[1] for name, report in reports.items()}
        return reports

    def _is_same_info_for_same_key(
        self, info_dict_a: dict[str, Any], info_dict_b: dict[str, Any]
    ) -> bool:
        """True if two dicts have the same values for the keys of both."""
        for key in info_dict_a.keys() & info_dict_b.keys():
            one, other = info_dict_a[key], info_dict_b[key]
            if type(one) is Tensor:
                if type(other) is not Tensor or bool((one != other).any()):
                    return False
            elif one != other:
                return False
        return True

    def _reformat_reports_for_visualizer(self) -> OrderedDict[str, Any]:
        """The data of all reports, by the paths of modules, in the model's order."""
        features: dict[str, dict[str, Any]] = {}
        for report in self._generated_reports.values():
            for path, found in report.items():
                known = features.setdefault(path, found)
                if not self._is_same_info_for_same_key(found, known):
                    raise ValueError(
                        "You have the same key with different values across detectors. "
                        "Someone incorrectly implemented a detector with conflicting keys "
                        "to existing detectors."
                    )
                features[path] = {**found, **known}
        paths = [path for path, _ in self._model.named_modules() if path in features]
        return OrderedDict((path, features[path]) for path in paths)

    def generate_visualizer(self) -> ModelReportVisualizer:
        """Tables and plots of the reports."""
        if len(self._generated_reports) == 0:
            raise Exception("Unable to generate visualizers without first generating reports")
        return ModelReportVisualizer(self._reformat_reports_for_visualizer())

    def _generate_qconfig_mapping_helper(
        self,
        detector_qconfig_info_combined: dict[str, DetectorQConfigInfo],
        generation_function: Callable[..., Any],
    ) -> QConfigMapping:
        """A mapping of modules' paths to what the function gives for their recommendations."""
        mapping = QConfigMapping()
        for path, module in self._model.named_modules():
            if path in detector_qconfig_info_combined:
                info = detector_qconfig_info_combined[path]
                mapping.set_module_name(path, generation_function(info, module))
        return mapping

    def _update_detector_quantizaiton_qconfig_info(
        self, combined_info: DetectorQConfigInfo, new_info: DetectorQConfigInfo
    ) -> None:
        """Adds recommendations for quantization."""
        combined_info.is_activation_dynamic |= new_info.is_activation_dynamic
        combined_info.is_weight_per_channel |= new_info.is_weight_per_channel

    def _update_detector_equalization_qconfig_info(
        self, combined_info: DetectorQConfigInfo, new_info: DetectorQConfigInfo
    ) -> None:
        """Adds recommendations for equalization, each a bool or a list of one a channel."""
        combined_info.is_equalization_recommended = (
            combined_info.is_equalization_recommended or new_info.is_equalization_recommended
        )

    def _generate_module_fqn_to_detector_info_mapping(
        self, update_qconfig_info_function: Callable[..., None]
    ) -> dict[str, DetectorQConfigInfo]:
        """The recommendations of all detectors, by the paths of modules."""
        self._check_ready()
        combined: dict[str, DetectorQConfigInfo] = {}
        for detector in self._desired_report_detectors:
            for path, info in detector.get_qconfig_info(self._model).items():
                if path in combined:
                    update_qconfig_info_function(combined[path], info)
                else:
                    combined[path] = info
        return combined

    def generate_qconfig_mapping(self) -> QConfigMapping:
        """A mapping for quantization that follows all recommendations that modules can have."""
        infos = self._generate_module_fqn_to_detector_info_mapping(
            self._update_detector_quantizaiton_qconfig_info
        )
        return self._generate_qconfig_mapping_helper(infos, self._quantization_config_generator)

    def _quantization_config_generator(
        self, detector_qconfig_info: DetectorQConfigInfo, module: Module
    ) -> QConfig:
        return detector_qconfig_info.generate_quantization_qconfig(module)

    def _equalization_config_generator(
        self, detector_qconfig_info: DetectorQConfigInfo, module: Module
    ) -> EqualizationQConfig:
        return detector_qconfig_info.generate_equalization_qconfig()

    def generate_equalization_mapping(self) -> QConfigMapping:
        """A mapping for equalization of the modules that detectors looked at."""
        infos = self._generate_module_fqn_to_detector_info_mapping(
            self._update_detector_equalization_qconfig_info
        )
        return self._generate_qconfig_mapping_helper(infos, self._equalization_config_generator)
