"""Comparison of float and quantized models: weights, activations, single layers."""

from __future__ import annotations

import copy

import pytest

import tritorch as torch
import tritorch.ao.ns._numeric_suite_fx as ns
from tritorch.ao.ns.fx.graph_matcher import GraphMatchingException, get_matching_subgraph_pairs
from tritorch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from tritorch.ao.ns.fx.utils import (
    compute_cosine_similarity,
    compute_normalized_l2_error,
    compute_sqnr,
)
from tritorch.ao.quantization import (
    default_dynamic_qconfig,
    default_qconfig,
    get_default_qconfig_mapping,
)
from tritorch.ao.quantization.backend_config import get_native_backend_config
from tritorch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from tritorch.fx import symbolic_trace

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning"),
]


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(4, 3, 6, 6)


@pytest.fixture
def pair(x: torch.Tensor) -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 2, 3)).eval()
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x,))
    prepared(x)
    return prepared, convert_fx(copy.deepcopy(prepared))


def test_distances() -> None:
    x, y = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5])
    assert compute_sqnr(x, y).item() == pytest.approx(20.0)
    assert compute_normalized_l2_error(x, y).item() == pytest.approx(0.1)
    assert compute_cosine_similarity(x, 2 * x).item() == pytest.approx(1.0)
    assert compute_sqnr((x, x), (y, y))[1].item() == pytest.approx(20.0)
    assert compute_sqnr(x.long(), y.long()) is None


def test_weights(pair: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    results = ns.extract_weights("a", pair[0], "b", pair[1])
    assert list(results) == ["_0", "_1"]
    ns.extend_logger_results_with_comparison(results, "a", "b", compute_sqnr, "sqnr")
    entry = results["_0"]["weight"]["b"][0]
    assert entry["fqn"] == "0" and entry["values"][0].is_quantized
    assert entry["sqnr"][0] > 30


def test_activations(pair: tuple[torch.nn.Module, torch.nn.Module], x: torch.Tensor) -> None:
    a, b = ns.add_loggers("a", pair[0], "b", pair[1], ns.OutputLogger, should_log_inputs=True)
    a(x), b(x)
    results = ns.extract_logger_info(a, b, ns.OutputLogger, "b")
    ns.extend_logger_results_with_comparison(results, "a", "b", compute_sqnr, "sqnr")
    assert {kind for entry in results.values() for kind in entry} == {"node_input", "node_output"}
    for entry in results.values():
        assert entry["node_output"]["b"][0]["sqnr"][0] > 25


def test_single_layers(pair: tuple[torch.nn.Module, torch.nn.Module], x: torch.Tensor) -> None:
    both = ns.add_shadow_loggers("a", pair[0], "b", pair[1], ns.OutputLogger)
    both(x)
    results = ns.extract_shadow_logger_info(both, ns.OutputLogger, "b")
    ns.extend_logger_results_with_comparison(results, "a", "b", compute_sqnr, "sqnr")
    assert len(results) == 2
    for entry in results.values():
        assert entry["node_output"]["b"][0]["sqnr"][0] > 25


def test_graphs_that_do_not_correspond() -> None:
    one = symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    two = symbolic_trace(torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1)))
    with pytest.raises(GraphMatchingException, match="are not related"):
        get_matching_subgraph_pairs(one, two)
    three = symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)))
    with pytest.raises(GraphMatchingException, match="one of which is empty"):
        get_matching_subgraph_pairs(one, three)


def test_several_quantized_forms_of_each_layer(x: torch.Tensor) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    mapping = QConfigMultiMapping().set_global([default_qconfig, default_dynamic_qconfig])
    shadows = ns.prepare_n_shadows_model(model.eval(), (x,), mapping, get_native_backend_config())
    shadows(x)
    shadows = ns.convert_n_shadows_model(shadows)
    ns.loggers_set_enabled(shadows, True)
    assert torch.equal(shadows(x), model(x))
    results = ns.extract_results_n_shadows_model(shadows)
    grouped = ns.group_results_by_subgraph(results)
    compared = ns.create_results_comparison(grouped)
    candidates = [entry["candidates"] for entry in compared.values()]
    assert any(set(entry) == {"1", "2"} for entry in candidates)
    assert all(c["cmp_mean"] > 20 for entry in candidates for c in entry.values())
