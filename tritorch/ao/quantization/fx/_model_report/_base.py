"""The base of detectors, and configurations from what they find."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tritorch.ao.nn import qat
from tritorch.ao.quantization.fx._equalize import (
    EqualizationQConfig,
    default_equalization_qconfig,
)
from tritorch.ao.quantization.fx._model_report.model_report_observer import ModelReportObserver
from tritorch.ao.quantization.observer import (
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)
from tritorch.ao.quantization.qconfig import QConfig, _assert_valid_qconfig, default_qconfig
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Conv1d, Conv2d, Conv3d, Linear, Module

DETECTOR_TARGET_NODE_KEY = "target_node"
DETECTOR_OBS_TO_INSERT_KEY = "observer_to_insert"
DETECTOR_IS_POST_OBS_KEY = "is_post_observer"
DETECTOR_OBS_ARGS_KEY = "observer_args"

Report = tuple[str, dict[str, Any]]

LAYERS: set[Any] = {
    *(Linear, Conv1d, Conv2d, Conv3d),
    *(qat.Linear, qat.Conv1d, qat.Conv2d, qat.Conv3d),
}


class DetectorQConfigInfo:
    """Recommendations of detectors for one module."""

    def __init__(self, module_fqn: str) -> None:
        super().__init__()
        self.module_fqn = module_fqn
        self.is_activation_dynamic = False
        self.is_weight_per_channel = False
        self.is_equalization_recommended = False

    def generate_quantization_qconfig(self, module: Module) -> QConfig:
        """A qconfig with all recommendations, or with one that the module can have, or the
        default."""
        dynamic, per_channel = self.is_activation_dynamic, self.is_weight_per_channel
        for is_dynamic, is_per_channel in (
            (dynamic, per_channel),
            (dynamic, False),
            (False, per_channel),
        ):
            qconfig = QConfig(
                default_dynamic_quant_observer if is_dynamic else default_observer,
                default_per_channel_weight_observer if is_per_channel else default_weight_observer,
            )
            try:
                _assert_valid_qconfig(qconfig, module)
            except AssertionError:  # the module cannot have it
                continue
            return qconfig
        return default_qconfig

    def generate_equalization_qconfig(self) -> EqualizationQConfig:
        """The qconfig for equalization."""
        return default_equalization_qconfig


class DetectorBase(ABC):
    """Base of detectors: where to observe, and what to say of it."""

    def __init__(self) -> None:
        super().__init__()
        self.detector_config_info = None

    @abstractmethod
    def determine_observer_insert_points(self, model: Any) -> dict[str, Any]:
        """Observers to insert, by the paths that they get, with their nodes and arguments."""

    @abstractmethod
    def get_detector_name(self) -> str:
        """The name of the detector's report."""

    @abstractmethod
    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Recommendations by the paths of modules."""

    def _get_targeting_node(self, prepared_fx_model: GraphModule, target_fqn: str) -> Node:
        """The node that calls a module, or the nearest module around it that is called."""
        path = target_fqn
        while True:
            for node in prepared_fx_model.graph.nodes:
                if node.target == path:
                    return node
            if "." not in path:
                raise ValueError("passed in target_fqn not found in graph's targets.")
            path = path.rpartition(".")[0]

    def _insertion(
        self, node: Node, observer: ModelReportObserver, after: bool = False
    ) -> dict[str, Any]:
        """An observer of a node's inputs, or of its output."""
        return {
            DETECTOR_TARGET_NODE_KEY: node,
            DETECTOR_OBS_TO_INSERT_KEY: observer,
            DETECTOR_IS_POST_OBS_KEY: after,
            DETECTOR_OBS_ARGS_KEY: (node,) if after else node.args,
        }

    @abstractmethod
    def generate_detector_report(self, model: Any) -> Report:
        """A text, and what it is from, by the paths of modules."""


def recommendations(
    found: dict[str, dict[str, Any]], key: str, attribute: str
) -> dict[str, DetectorQConfigInfo]:
    """An attribute of recommendations from an entry of what was found, by the paths of modules."""
    infos = {}
    for path, entry in found.items():
        infos[path] = DetectorQConfigInfo(path)
        setattr(infos[path], attribute, entry[key])
    return infos
