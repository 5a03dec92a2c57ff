"""Equalization of inputs and weights, and reports on models."""

from __future__ import annotations

import pytest

import tritorch as torch
from tritorch.ao.quantization import get_default_qconfig_mapping
from tritorch.ao.quantization.fx._equalize import (
    _convert_equalization_ref,
    _InputEqualizationObserver,
    _WeightEqualizationObserver,
    calculate_equalization_scale,
    default_equalization_qconfig,
)
from tritorch.ao.quantization.fx._model_report.detector import (
    DynamicStaticDetector,
    InputWeightEqualizationDetector,
    OutlierDetector,
    PerChannelDetector,
)
from tritorch.ao.quantization.fx._model_report.model_report import ModelReport
from tritorch.ao.quantization.quantize_fx import prepare_fx

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning"),
]


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).eval()


def test_scale_is_the_root_of_the_ratio_of_ranges() -> None:
    x = torch.tensor([[0.0, -1.0], [4.0, 1.0]])
    w = torch.tensor([[1.0, -4.0], [0.0, 4.0]])
    of_input, of_weight = _InputEqualizationObserver(), _WeightEqualizationObserver()
    of_input(x), of_weight(w)
    scale = calculate_equalization_scale(of_input, of_weight)
    assert torch.allclose(scale, torch.tensor([(1 / 4) ** 0.5, (8 / 2) ** 0.5]))


def test_an_equalized_model_computes_the_same() -> None:
    model, x = _model(), torch.randn(5, 4) * torch.tensor([1.0, 10.0, 0.1, 3.0])
    wanted = model(x)
    prepared = prepare_fx(
        model,
        get_default_qconfig_mapping(),
        (x,),
        _equalization_config={"": default_equalization_qconfig},
    )
    prepared(x)
    before = prepared.get_submodule("0").weight.detach().clone()
    equalized = _convert_equalization_ref(prepared)
    assert torch.allclose(equalized(x), wanted, atol=1e-4)
    assert not torch.allclose(equalized.get_submodule("0").weight, before)


@pytest.mark.filterwarnings("ignore:Passing a QConfig dictionary:FutureWarning")
def test_reports() -> None:
    model, x = _model(), torch.randn(50, 4)
    x[:, 2] *= 0.01
    x[0, 2] = 9.0
    prepared = prepare_fx(model, get_default_qconfig_mapping("qnnpack"), (x,))
    detectors = {
        PerChannelDetector("qnnpack"),
        DynamicStaticDetector(tolerance=0.9),
        InputWeightEqualizationDetector(0.5),
        OutlierDetector(reference_percentile=0.9),
    }
    report = ModelReport(prepared, detectors)
    observed = report.prepare_detailed_calibration()
    observed(x), observed(x * 3)
    texts = report.generate_model_report(remove_inserted_observers=False)
    assert "Module 0 can be configured to use per_channel" in texts["per_channel_detector"][0]
    dynamic = texts["dynamic_vs_static_detector"][1]["0"]
    assert dynamic["input_activation_dynamic_static_data_classification"] == "non-stationary"
    outliers = texts["outlier_detector"][1]["0"]["outliers_detected"]
    assert outliers[2] and not outliers[0]
    mapping = report.generate_qconfig_mapping()
    assert set(mapping.module_name_qconfigs) == {"0", "1"}
    names = report.generate_visualizer().get_all_unique_feature_names()
    assert "outlier_detection_percentile_ratios" in names
    report.generate_model_report(remove_inserted_observers=True)
    assert not any("model_report" in name for name, _ in prepared.named_modules())
    with pytest.raises(Exception, match="already removed observers"):
        report.generate_model_report(remove_inserted_observers=True)
