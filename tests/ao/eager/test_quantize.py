"""Eager mode: fusion, preparation, conversion, training, dynamic quantization."""

import copy
import warnings

import numpy as np
import pytest

import tritorch as torch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.quantized as nnq
import tritorch.ao.nn.quantized.dynamic as nnqd
from tritorch import nn
from tritorch.ao import quantization as q
from tritorch.ao.quantization import _equalize, fuser_method_mappings as fusers
from tritorch.ao.quantization.quantize import _observer_forward_hook

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
        self.fc = nn.Linear(4, 5)
        self.sum = nnq.FloatFunctional()

    def forward(self, x):
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.sum.add(x, x).mean([2, 3])
        return self.dequant(self.fc(x))


def image(seed=0):
    x = np.random.default_rng(seed).standard_normal((4, 3, 6, 6))
    return torch.from_numpy(x.astype("float32"))


def model(qconfig=None):
    torch.manual_seed(0)
    made = Model()
    made.qconfig = qconfig or q.get_default_qconfig("x86")
    return made


def test_static():
    x, plain = image(), model().eval()
    fused = q.fuse_modules(plain, [["conv", "bn", "relu"]])
    assert isinstance(fused.conv, nni.ConvReLU2d) and isinstance(fused.bn, nn.Identity)
    torch.testing.assert_close(fused(x), plain(x), rtol=1e-4, atol=1e-5)
    prepared = q.prepare(fused)
    assert isinstance(prepared.sum.activation_post_process, q.HistogramObserver)
    assert not hasattr(prepared.conv[0], "activation_post_process")
    torch.testing.assert_close(prepared(x), fused(x))
    made = q.convert(prepared)
    kinds = {"quant": nnq.Quantize, "conv": nni.quantized.ConvReLU2d, "fc": nnq.Linear,
             "sum": nnq.QFunctional, "dequant": nnq.DeQuantize}  # fmt: skip
    assert {name: type(getattr(made, name)) for name in kinds} == kinds
    assert not any(hasattr(m, "qconfig") for m in made.modules())
    assert not any(m._forward_hooks for m in made.modules())
    assert (made(x) - plain(x)).abs().max().item() < 0.05
    assert isinstance(prepared.fc, nn.Linear)  # not in place


def test_in_place_and_reference():
    prepared = q.prepare(model().eval(), inplace=True)
    prepared(image())
    reference = q.convert(prepared, is_reference=True)
    assert reference.fc._IS_REFERENCE and isinstance(reference.fc, nn.Linear)
    assert q.convert(prepared, inplace=True) is prepared


def test_training():
    x, trained = image(), model(q.get_default_qat_qconfig("x86")).train()
    fused = q.fuse_modules_qat(trained, [["conv", "bn", "relu"]])
    prepared = q.prepare_qat(fused)
    assert isinstance(prepared.conv, nni.qat.ConvBnReLU2d)
    optimizer = torch.optim.SGD(prepared.parameters(), 0.05)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = (prepared(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    prepared.eval().apply(q.disable_observer)
    made = q.convert(prepared)
    assert isinstance(made.conv, nni.quantized.ConvReLU2d)
    assert (made(x) - prepared(x)).abs().max().item() < 0.05
    with pytest.raises(AssertionError, match="in training mode"):
        q.prepare_qat(prepared)


def test_whole_ways():
    x = image()
    made = q.quantize(model().eval(), lambda m: m(x), [])
    assert isinstance(made.fc, nnq.Linear)
    trained = q.quantize_qat(model(q.get_default_qat_qconfig("x86")), lambda m, y: m(y), [x])
    assert isinstance(trained.fc, nnq.Linear)
    seen = []
    q.default_eval_fn(seen.append, [(1, None), (2, None)])
    assert seen == [1, 2]


def test_dynamic():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(5, 6)
    made = q.quantize_dynamic(plain)
    assert [type(m) for m in made] == [nnqd.Linear, nn.ReLU, nnqd.Linear]
    assert (made(x) - plain(x)).abs().max().item() < 0.05
    named = q.quantize_dynamic(plain, {"2": q.per_channel_dynamic_qconfig})
    assert [type(m) for m in named] == [nn.Linear, nn.ReLU, nnqd.Linear]
    assert named[2].weight().qscheme() is torch.per_channel_affine
    half = q.quantize_dynamic(plain, {nn.Linear}, dtype=torch.float16)
    assert half[0]._packed_params.dtype is torch.float16
    table = q.quantize_dynamic(nn.Sequential(nn.Embedding(4, 8)), dtype=torch.quint8)
    assert isinstance(table[0], nnq.Embedding)
    with pytest.raises(ValueError, match="Don't know how to quantize"):
        q.quantize_dynamic(plain, dtype=torch.int8)


def test_hooks_stay():
    calls = []
    prepared = q.prepare(model().eval())
    prepared.fc.register_forward_hook(lambda *a: calls.append("after"))
    prepared.fc.register_forward_pre_hook(lambda *a: calls.append("before"))
    prepared(image())
    made = q.convert(prepared)
    made(image())
    assert calls == ["before", "after"] * 2
    assert _observer_forward_hook not in made.fc._forward_hooks.values()


def test_custom_modules_and_skipped_ones():
    class Observed(nn.Module):
        def __init__(self, fc):
            super().__init__()
            self.fc = fc

        @classmethod
        def from_float(cls, fc):
            made = cls(fc)
            made.qconfig = fc.qconfig
            return made

        def forward(self, x):
            return self.fc(x)

    class Quantized(Observed):
        @classmethod
        def from_observed(cls, observed):
            assert observed.activation_post_process.max_val.item() > float("-inf")
            return cls(observed.fc)

    plain = model().eval()
    plain.conv.qconfig = None
    prepared = q.prepare(
        plain,
        prepare_custom_config_dict={"float_to_observed_custom_module_class": {nn.Linear: Observed}},
    )
    assert not hasattr(prepared.conv, "activation_post_process")
    prepared(image())
    made = q.convert(
        prepared,
        convert_custom_config_dict={
            "observed_to_quantized_custom_module_class": {Observed: Quantized}
        },
    )
    assert type(made.fc) is Quantized and type(made.conv) is nn.Conv2d


def test_qconfigs_go_down():
    plain = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Conv2d(1, 1, 1)))
    q.propagate_qconfig_(plain, {"1": q.default_qconfig, "1.0": None, nn.Conv2d: q.default_qconfig})
    assert plain[0].qconfig is None and plain[1][0].qconfig is None
    assert q.qconfig_equals(plain[1][1].qconfig.activation.p, q.default_qconfig.activation.p) or (
        plain[1][1].qconfig.activation().quant_max == 127
    )
    transposed = nn.ConvTranspose2d(2, 2, 2)
    transposed.qconfig = q.default_per_channel_qconfig
    with pytest.raises(AssertionError, match="not supported yet for ConvTranspose"):
        q.prepare(transposed)
    wrapped = q.add_quant_dequant(plain)
    assert isinstance(wrapped[1][1], q.QuantWrapper) and type(wrapped[0]) is nn.Linear


def test_every_way_warns():
    calls = {
        q.quantize_dynamic: 2,  # itself and convert
        q.prepare: 1,
        q.convert: 1,
    }
    for function, count in calls.items():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function(model().eval())
        found = [w for w in seen if w.category is DeprecationWarning]
        assert len(found) == count
        assert "torch.ao.quantization is deprecated" in str(found[0].message)


def test_fusion_of_rows():
    linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    bn.running_mean.fill_(0.5)
    x = torch.randn(2, 3)
    torch.testing.assert_close(fusers.fuse_linear_bn(False, linear, bn)(x), bn(linear(x)))
    transposed, bn2 = nn.ConvTranspose2d(3, 4, 2).eval(), nn.BatchNorm2d(4).eval()
    fused = fusers.fuse_convtranspose_bn(False, transposed, bn2)
    torch.testing.assert_close(fused(image()), bn2(transposed(image())), rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError, match="same mode"):
        fusers.fuse_conv_bn(False, nn.Conv2d(3, 4, 1), bn2)
    with pytest.raises(AssertionError, match="affine set to True"):
        fusers.fuse_conv_bn(True, nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, affine=False))
    with pytest.raises(AssertionError, match="did not find fuser method"):
        q.fuse_modules(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()), ["0", "1"])
    found = fusers.get_fuser_method_new((nn.ReLU, torch.add), {(nn.ReLU, q.MatchAllNode): 1})
    assert found == 1


def test_fusion_moves_hooks():
    plain = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    calls = []
    plain[0].register_forward_pre_hook(lambda *a: calls.append("before"))
    plain[1].register_forward_hook(lambda *a: calls.append("after"))
    fused = q.fuse_modules(plain, ["0", "1"])
    fused(torch.ones(1, 2))
    assert calls == ["before", "after"] and isinstance(fused[0], nni.LinearReLU)


def test_equalized_weights_compute_the_same():
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        plain[0].weight[2] *= 50
    x, before = torch.randn(5, 4), copy.deepcopy(plain)
    made = _equalize.equalize(plain, [["0", "2"]], 1e-6, inplace=False)
    torch.testing.assert_close(made(x), before(x), rtol=1e-4, atol=1e-4)
    ranges = _equalize.channel_range(made[0].weight, 0), _equalize.channel_range(made[2].weight, 1)
    torch.testing.assert_close(*ranges, rtol=1e-3, atol=1e-4)
    assert torch.equal(plain[0].weight, before[0].weight)
    with pytest.raises(ValueError, match="at least two"):
        _equalize.expand_groups_in_paired_modules_list([["a"]])


def test_synchronized_batch_norm_keeps_the_qconfig():
    bn = nn.BatchNorm2d(3)
    bn.qconfig = q.default_qconfig
    assert nn.SyncBatchNorm.convert_sync_batchnorm(bn).qconfig is bn.qconfig


def test_graph_passes_are_not_built():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(NotImplementedError, match="no passes that quantize TorchScript"):
        q.quantize_dynamic_jit(scripted, {"": q.default_dynamic_qconfig})
    with pytest.raises(ValueError, match="must be a script module"):
        q.prepare_jit(nn.Linear(2, 2), {})


def test_traces_keep_packed_parameters():
    torch.manual_seed(0)
    made = q.quantize_dynamic(nn.Sequential(nn.Linear(5, 5)))
    x, y = torch.randn(2, 5), torch.randn(3, 5)
    traced = torch.jit.trace(made, x)
    assert "quantized::linear_dynamic" in str(traced.inlined_graph)
    assert torch.equal(traced(y), made(y))


def test_whole_modules_are_saved_under_pytorchs_names(tmp_path):
    prepared = q.prepare(model().eval())
    prepared(image())
    made = q.convert(prepared)
    torch.save(made, tmp_path / "made.pt")
    contents = (tmp_path / "made.pt").read_bytes()
    assert b"torch.ao.nn.quantized.modules.linear" in contents and b"tritorch.ao" not in contents
    again = torch.load(tmp_path / "made.pt", weights_only=False)
    assert torch.equal(again(image()), made(image()))
