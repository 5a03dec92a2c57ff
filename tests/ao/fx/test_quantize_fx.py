"""prepare_fx, convert_fx and their like on small models."""

from __future__ import annotations

import copy
import operator
from typing import Any

import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.intrinsic import quantized as nniq
from tritorch.ao.quantization import (
    QConfigMapping,
    default_dynamic_qconfig,
    default_qconfig,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
)
from tritorch.ao.quantization.fx.custom_config import PrepareCustomConfig
from tritorch.ao.quantization.quantize_fx import (
    _convert_to_reference_decomposed_fx,
    convert_fx,
    convert_to_reference_fx,
    fuse_fx,
    prepare_fx,
    prepare_qat_fx,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning"),
]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.bn = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 5)
        self.w = torch.nn.Parameter(torch.randn(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn(self.conv(x)), True)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        x = self.linear(x)
        return F.linear(x, self.w) + x


@pytest.fixture
def model() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(4, 3, 6, 6)


def _targets(model: Any) -> list[Any]:
    modules = dict(model.named_modules())
    return [
        type(modules[node.target]) if node.op == "call_module" else node.target
        for node in model.graph.nodes
    ]


def test_static_quantization_is_near_the_float_model(model: Net, x: torch.Tensor) -> None:
    wanted = model(x)
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x,))
    assert torch.allclose(prepared(x), wanted, atol=1e-5)
    reference = convert_to_reference_fx(copy.deepcopy(prepared))
    quantized = convert_fx(prepared)
    targets = _targets(quantized)
    for expected in (
        nniq.ConvReLU2d,
        nnq.Linear,
        torch.ops.quantized.linear,
        torch.ops.quantized.add,
    ):
        assert expected in targets
    assert F.relu not in targets and operator.add not in targets
    scale = (wanted.max() - wanted.min()) / 255
    assert (quantized(x) - wanted).abs().max() < 8 * scale
    assert (reference(x) - quantized(x)).abs().max() < 2 * scale


def test_state_of_a_quantized_model_is_loaded(model: Net, x: torch.Tensor) -> None:
    mapping = get_default_qconfig_mapping()
    models = []
    for seed in (0, 1):
        prepared = prepare_fx(copy.deepcopy(model), mapping, (x,))
        prepared(x * (seed + 1))
        models.append(convert_fx(prepared))
    state = models[0].state_dict()
    assert any("_packed_weight" in key for key in state)
    models[1].load_state_dict(state)
    assert torch.equal(models[0](x), models[1](x))


def test_dynamic_quantization_observes_the_input_alone(x: torch.Tensor) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU()).eval()
    wanted = model(x)
    prepared = prepare_fx(model, QConfigMapping().set_global(default_dynamic_qconfig), (x,))
    quantized = convert_fx(prepared)
    assert nniq.dynamic.LinearReLU in _targets(quantized)
    assert (quantized(x) - wanted).abs().max() < 0.05


def test_training_with_fake_quantization(model: Net, x: torch.Tensor) -> None:
    prepared = prepare_qat_fx(model.train(), get_default_qat_qconfig_mapping(), (x,))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    losses = []
    for _ in range(8):
        loss = ((prepared(x) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    quantized = convert_fx(prepared.eval())
    assert nniq.ConvReLU2d in _targets(quantized)
    assert torch.isfinite(quantized(x)).all()


def test_what_is_configured_with_none_stays_float(model: Net, x: torch.Tensor) -> None:
    mapping = get_default_qconfig_mapping().set_module_name("linear", None)
    prepared = prepare_fx(model, mapping, (x,))
    prepared(x)
    quantized = convert_fx(prepared)
    assert type(quantized.linear) is torch.nn.Linear
    assert nniq.ConvReLU2d in _targets(quantized)


def test_fusion_keeps_values(model: Net, x: torch.Tensor) -> None:
    wanted = model(x)
    sequence = torch.nn.Sequential(model.conv, model.bn, torch.nn.ReLU()).eval()
    expected = sequence(x)
    fused = fuse_fx(sequence)
    assert nni.ConvReLU2d in _targets(fused)
    assert torch.allclose(fused(x), expected, atol=1e-5)
    assert wanted.shape == (4, 5)


def test_shared_observers_of_cat(x: torch.Tensor) -> None:
    class Cat(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, y], 1)

    prepared = prepare_fx(Cat().eval(), QConfigMapping().set_global(default_qconfig), (x, x))
    observers = [m for name, m in prepared.named_modules(remove_duplicate=False) if name]
    assert len(observers) == 3 and len(set(map(id, observers))) == 1
    prepared(x, 2 * x)
    assert torch.allclose(convert_fx(prepared)(x, 2 * x), torch.cat([x, 2 * x], 1), atol=0.1)


def test_plain_integers_in_place_of_quantized_tensors(x: torch.Tensor) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 5)).eval()
    wanted = model(x)
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x,))
    prepared(x)
    converted = _convert_to_reference_decomposed_fx(prepared)
    targets = _targets(converted)
    assert torch.ops.quantized_decomposed.quantize_per_tensor.default in targets
    assert (converted(x) - wanted).abs().max() < 0.1


def test_preserved_attributes_and_the_old_dicts(model: Net, x: torch.Tensor) -> None:
    model.note = "kept"  # type: ignore[assignment]
    config = {"preserved_attributes": ["note"]}
    with pytest.warns(FutureWarning, match="prepare_custom_config_dict"):
        prepared = prepare_fx(model, {"": default_qconfig}, (x,), prepare_custom_config=config)
    assert prepared.note == "kept" and copy.deepcopy(prepared).note == "kept"
    restored = PrepareCustomConfig.from_dict(config)
    assert restored.to_dict() == config
    with pytest.raises(ValueError, match="must be a GraphModule"):
        convert_fx(model)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_quantizers_of_several_kinds_are_switched() -> None:
    m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).train()
    x = torch.randn(2, 3)
    m = prepare_qat_fx(m, get_default_qat_qconfig_mapping("fbgemm"), (x,))
    scripted = torch.jit.script(m)
    names = [str(s._c.qualified_name) for s in scripted.modules()]
    assert any("torch_mangle" in name and "fake_quantize" in name for name in names)
    scripted.apply(torch.ao.quantization.disable_observer)
    scripted.apply(torch.ao.quantization.disable_fake_quant)
    quantizers = [s for s in scripted.modules() if hasattr(s, "observer_enabled")]
    assert len(quantizers) > 2
    assert all(not s.observer_enabled.item() for s in quantizers)
    assert all(not s.fake_quant_enabled.item() for s in quantizers)
