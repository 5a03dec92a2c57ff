"""QConfigs, mappings, backends' descriptions."""

import pickle

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import quantization as q
from tritorch.ao.quantization import backend_config as backends, utils
from tritorch.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from tritorch.ao.quantization.qconfig_mapping import (
    _get_symmetric_qnnpack_qconfig_mapping,
)


@pytest.mark.parametrize("backend", ["fbgemm", "x86", "qnnpack", "onednn"])
@pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:Default qconfig of oneDNN")
def test_defaults_of_engines(backend):
    config = q.get_default_qconfig(backend)
    activation, weight = config.activation(), config.weight()
    assert isinstance(activation, q.HistogramObserver)
    assert activation.reduce_range == (backend in ("fbgemm", "x86"))
    assert utils.is_per_channel(weight.qscheme) == (backend != "qnnpack")
    for version, kind in ((0, q.FakeQuantize), (1, q.FusedMovingAvgObsFakeQuantize)):
        trained = q.get_default_qat_qconfig(backend, version)
        assert type(trained.activation()) is kind and type(trained.weight()) is kind
    with pytest.raises(AssertionError, match="Version number"):
        q.get_default_qconfig(backend, 7)


def test_instances_are_refused_and_equality_is_by_arguments():
    with pytest.raises(ValueError, match="observer instance"):
        q.QConfig(q.MinMaxObserver(), None)
    with pytest.raises(AssertionError, match="not supported"):
        q.get_default_qconfig("abacus")
    make = lambda: q.QConfig(q.MinMaxObserver.with_args(eps=0.5), q.default_weight_observer)
    assert make() != make() and q.qconfig_equals(make(), make())
    assert not q.qconfig_equals(make(), q.default_qconfig) and q.qconfig_equals(None, None)
    assert pickle.loads(pickle.dumps(q.default_dynamic_qconfig))[0]().is_dynamic


def test_old_functions_warn():
    with pytest.warns(FutureWarning, match="QConfigDynamic"):
        assert q.QConfigDynamic().weight is nn.Identity
    with pytest.warns(FutureWarning, match="get_default_qconfig_mapping"):
        assert "object_type" in q.get_default_qconfig_dict()


def test_kinds_of_quantization():
    kinds = {
        q.QuantType.DYNAMIC: (q.default_dynamic_qconfig, q.float16_dynamic_qconfig),
        q.QuantType.STATIC: (q.default_qconfig, q.float16_static_qconfig),
        q.QuantType.WEIGHT_ONLY: (q.float_qparams_weight_only_qconfig,),
    }
    for kind, configs in kinds.items():
        assert {utils.get_quant_type(config) for config in configs} == {kind}
    assert utils.op_is_int8_dynamically_quantized(q.default_dynamic_qconfig)
    assert not utils.activation_is_statically_quantized(q.default_dynamic_qconfig)
    with pytest.raises(AssertionError, match="must be provided"):
        utils.get_quant_type(None)


def test_mapping_goes_through_a_dict():
    config = q.default_qconfig
    mapping = (
        q.QConfigMapping()
        .set_global(config)
        .set_object_type(nn.Linear, None)
        .set_module_name_regex("a.*", config)
        .set_module_name("b", None)
        .set_module_name_object_type_order("c", torch.add, 1, config)
    )
    again = q.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict() and repr(again) == repr(mapping)
    assert again.module_name_object_type_order_qconfigs == {("c", torch.add, 1): config}


def test_default_mapping_knows_ranges_and_transposed_convolutions():
    mapping = q.get_default_qconfig_mapping("x86").object_type_qconfigs
    assert mapping[nn.Tanh].activation().zero_point.item() == 128
    assert mapping["sigmoid_"] is mapping[torch.sigmoid]
    assert mapping[nn.ConvTranspose2d].weight().qscheme is torch.per_tensor_symmetric
    symmetric = _get_symmetric_qnnpack_qconfig_mapping()
    assert symmetric.object_type_qconfigs["reshape"] is symmetric.global_qconfig
    assert symmetric.object_type_qconfigs[nn.Sigmoid] is not symmetric.global_qconfig


def test_example_inputs_have_defaults():
    class Sub(nn.Module):
        def forward(self, x, key1=3, key2=4):
            return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = Sub()

        def forward(self, x):
            return self.sub(x, key2=6)

    assert utils.get_fqn_to_example_inputs(Model(), (1,)) == {"": (1,), "sub": (1, 3, 6)}
    assert nn.Module.__call__.__name__ != "noting"


def test_determined_qparams():
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([3.0, 2.0])
    eps = torch.tensor([1e-6])
    scale, zero = utils.determine_qparams(low, high, 0, 255, torch.quint8, eps, False)
    assert scale.dtype is torch.float64 and zero.tolist() == [64, 0]
    with pytest.raises(AssertionError, match="should be less than max"):
        utils.determine_qparams(high, low, 0, 255, torch.quint8, eps, False)


ENGINES = [
    backends.get_native_backend_config,
    backends.get_fbgemm_backend_config,
    backends.get_qnnpack_backend_config,
    backends.get_onednn_backend_config,
    backends.get_tensorrt_backend_config,
    backends.get_executorch_backend_config,
]


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_go_through_dicts(engine):
    config = engine()
    again = BackendConfig.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict()
    assert {len(c.dtype_configs) > 0 for c in config.configs} == {True}


def test_patterns_are_reversed_and_replaced():
    config = BackendConfig("mine")
    config.set_backend_pattern_config(BackendPatternConfig((nn.Conv2d, nn.BatchNorm2d, nn.ReLU)))
    later = BackendPatternConfig((nn.Conv2d, nn.BatchNorm2d, nn.ReLU)).set_fused_module(nn.ReLU)
    config.set_backend_pattern_config(later)
    assert config.configs == [later]
    assert [*config._pattern_complex_format_to_config] == [(nn.ReLU, (nn.BatchNorm2d, nn.Conv2d))]
    with pytest.raises(ValueError, match="2 or 3 elements"):
        config.set_backend_pattern_config(BackendPatternConfig((1, 2, 3, 4)))
    with pytest.raises(ValueError, match="Only one of"):
        later._set_pattern_complex_format(nn.ReLU)


def test_dtypes_with_constraints():
    narrow = DTypeWithConstraints(torch.qint8, -127, 127)
    config = DTypeConfig(narrow, torch.quint8, is_dynamic=True)
    assert config.input_dtype is torch.qint8 and config.weight_dtype is None
    assert DTypeConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="Expected input_dtype"):
        DTypeConfig.from_dict({"input_dtype": "int8"})


def test_fixed_ranges_are_constraints():
    by_pattern = backends.get_fbgemm_backend_config()._pattern_complex_format_to_config
    dtypes = by_pattern[torch.tanh].dtype_configs[0].output_dtype_with_constraints
    assert (dtypes.scale_exact_match, dtypes.zero_point_exact_match) == (2 / 256, 128)
    assert by_pattern["size"].observation_type is ObservationType.INPUT_OUTPUT_NOT_OBSERVED
    assert by_pattern[torch.add]._num_tensor_args_to_observation_type[1] is (
        ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
    )


def test_onednn_fuses_a_sum_on_either_side():
    import tritorch.ao.nn.intrinsic as nni

    patterns = backends.get_onednn_backend_config()._pattern_complex_format_to_config
    conv, bn = nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1).eval()
    relu, add, other = nn.ReLU().eval(), torch.add, "other"
    every = utils.MatchAllNode
    left = patterns[(nn.ReLU, (add, (nn.BatchNorm2d, nn.Conv2d), every))]
    nodes = (relu, (add, (bn, conv), other))
    assert left._root_node_getter(nodes) is conv
    assert left._extra_inputs_getter(nodes) == [other]
    fused = left.fuser_method(False, *nodes)
    assert isinstance(fused, nni.ConvAddReLU2d) and fused[0].weight.shape == conv.weight.shape
    right = patterns[(add, every, nn.Conv2d)]
    assert right._root_node_getter((add, other, conv)) is conv
    assert isinstance(right.fuser_method(True, add, other, conv), nni.ConvAdd2d)
    with pytest.raises(NotImplementedError, match="Cannot fuse train modules"):
        left.fuser_method(True, *nodes)
