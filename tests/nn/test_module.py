"""`Module` itself: registering, the tree, hooks, state dicts, errors."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import tritorch as torch
from tritorch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 1))
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale * self.gain


def test_what_is_registered():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["gain", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert [name for name, _ in net.named_buffers()] == ["scale", "cache"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert list(net.state_dict()) == ["gain", "scale", *names[1:]]
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["gain"]
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_parameter("first.weight") is net.first.weight
    net.first = None
    assert "first.weight" not in net.state_dict()
    del net.gain
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'gain'"):
        net.gain  # noqa: B018


def test_assigning_wrong_things():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'torch.FloatTensor' as parameter 'gain'"):
        net.gain = torch.ones(1)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
        net.first = 3
    with pytest.raises(KeyError, match="attribute 'gain' already exists"):
        net.register_buffer("gain", torch.ones(1))

    class Early(nn.Module):
        def __init__(self):
            self.x = nn.Parameter(torch.ones(1))

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()


def test_shared_parameters_count_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4


def test_state_dict_round_trip_and_messages():
    net, other = Net(), Net()
    assert repr(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    for a, b in zip(net.parameters(), other.parameters()):
        assert a.equal(b) and a is not b
    state = net.state_dict()
    del state["gain"]
    state["extra"] = torch.ones(1)
    state["first.bias"] = torch.ones(4)
    with pytest.raises(RuntimeError) as info:
        other.load_state_dict(state)
    assert str(info.value).splitlines() == [
        "Error(s) in loading state_dict for Net:",
        '\tMissing key(s) in state_dict: "gain". ',
        '\tUnexpected key(s) in state_dict: "extra". ',
        "\tsize mismatch for first.bias: copying a param with shape torch.Size([4]) from "
        "checkpoint, the shape in current model is torch.Size([3]).",
    ]
    state["first.bias"] = torch.ones(3)
    keys = other.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["gain"] and keys.unexpected_keys == ["extra"]
    own = other.first.weight
    fresh = OrderedDict((k, v.clone()) for k, v in net.state_dict().items())
    other.load_state_dict(fresh, assign=True)
    assert other.first.weight is not own
    assert other.first.weight.data_ptr() == fresh["first.weight"].data_ptr()


def test_hooks_run_in_order_and_can_be_removed():
    net, seen = nn.Linear(2, 2), []
    handles = [
        net.register_forward_pre_hook(lambda m, args: seen.append("pre")),
        net.register_forward_hook(lambda m, args, out: seen.append("post")),
        net.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True),
        net.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True),
    ]
    x = torch.ones(1, 2)
    plain = nn.functional.linear(x, net.weight, net.bias)
    assert net(x).equal(plain * 2) and seen == ["first", "pre", "post"]
    for handle in handles:
        handle.remove()
    assert net(x).equal(plain) and len(seen) == 3


def test_full_backward_hooks():
    net, seen = nn.Linear(2, 3), {}

    def hook(module, grad_input, grad_output):
        seen["in"], seen["out"] = grad_input[0], grad_output[0]
        return (grad_input[0] * 10,)

    net.register_full_backward_hook(hook)
    net.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert seen["out"].equal(torch.full((1, 3), 2.0))
    assert torch.allclose(seen["in"], 2 * net.weight.sum(0, keepdim=True))
    assert torch.allclose(x.grad, 20 * net.weight.sum(0, keepdim=True))
    assert torch.allclose(net.bias.grad, torch.full((3,), 2.0))


def test_global_hooks():
    from tritorch.nn.modules import module

    seen = []
    handle = module.register_module_forward_hook(lambda m, a, o: seen.append(type(m).__name__))
    Net()(torch.ones(1, 2))
    handle.remove()
    Net()(torch.ones(1, 2))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_an_error_names_the_path():
    net = nn.Sequential(OrderedDict(body=Net()))
    with pytest.raises(RuntimeError) as info:
        net(torch.ones(1, 5))
    assert info.value.__notes__ == ["In module Sequential: body.first (Linear)"]


def doubled(module, args, out):
    return out * 2


def test_hooks_are_copied_and_pickled():
    net = nn.Linear(2, 2)
    plain = net(torch.ones(1, 2))
    handle = net.register_forward_hook(doubled)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.allclose(other(torch.ones(1, 2)), 2 * plain)
        other.register_forward_hook(doubled)
        assert torch.allclose(other(torch.ones(1, 2)), 4 * plain)
    handle.remove()
    assert net(torch.ones(1, 2)).equal(plain)
    state = net.__getstate__() | {"_forward_hooks": OrderedDict({7: doubled})}  # as torch's are
    other = nn.Linear(2, 2)
    other.__setstate__(state)
    assert torch.allclose(other(torch.ones(1, 2)), 2 * plain)


def test_copies_and_pickles():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(other.state_dict()) == list(net.state_dict())
        assert other.first.weight.equal(net.first.weight)
        assert other.first.weight.data_ptr() != net.first.weight.data_ptr()
        assert isinstance(other.gain, nn.Parameter) and other.gain.requires_grad
        other.zero_grad()


@pytest.mark.device
def test_to():
    net = Net()
    gain = net.gain
    net(torch.ones(1, 2)).sum().backward()
    assert net.to("cuda") is net and net.gain is gain and gain.is_cuda and gain.grad.is_cuda
    assert net.scale.is_cuda and net(torch.ones(1, 2, device="cuda")).is_cuda
    net.cpu().double()
    assert net.gain.dtype is torch.float64 and net.scale.dtype is torch.float64
    net.half().float().to(torch.float64)
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(torch.int32)
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    assert not net.eval().rest.training and net.train().rest[1].training


def test_modules_are_freed_at_once():
    gc.disable()
    try:
        net = Net()
        net(torch.ones(1, 2)).sum().backward()
        gone = weakref.ref(net)
        del net
        assert gone() is None
    finally:
        gc.enable()


def test_containers():
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Tanh())
    assert len(net[1:]) == 2 and isinstance(net[-1], nn.Tanh)
    del net[1]
    net.append(nn.Sigmoid()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in net] == ["Identity", "Linear", "Tanh", "Sigmoid"]
    assert list(net._modules) == ["0", "1", "2", "3"]
    items = nn.ModuleList([nn.ReLU()]) + [nn.Tanh()]
    items.extend([nn.ReLU()]).insert(1, nn.GELU())
    assert [type(m).__name__ for m in items] == ["ReLU", "GELU", "Tanh", "ReLU"]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        items[9]
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    assert list(table) == ["a", "b"] and "b" in table and isinstance(table.pop("a"), nn.ReLU)
    params = nn.ParameterList([torch.zeros(2)]).append(torch.ones(1))
    assert len(list(params.parameters())) == 2 and len(params) == 2
    named = nn.ParameterDict({"x": torch.zeros(2), "y": torch.ones(1)})
    assert sorted(dict(named.named_parameters())) == ["x", "y"] and named.get("z") is None


def test_functional_call_and_apply():
    net = Net()
    state = {"gain": torch.zeros(1)}
    assert not torch.func.functional_call(net, state, (torch.ones(1, 2),)).any()
    assert net.gain.item() == 1
    net.apply(lambda m: nn.init.zeros_(m.weight) if isinstance(m, nn.Linear) else None)
    assert not net.first.weight.any()


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert net[0].has_uninitialized_params() and "UninitializedParameter" in repr(net[3].weight)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        net[0].weight.shape  # noqa: B018
    out = net(torch.ones(3, 5, 6, 6))
    assert [type(m) for m in net[:2]] == [nn.Conv2d, nn.BatchNorm2d] and type(net[3]) is nn.Linear
    assert net[0].weight.shape == (4, 5, 3, 3) and net[3].in_features == 64
    out.sum().backward()
    assert net[0].weight.grad.shape == (4, 5, 3, 3)
    other = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    other.load_state_dict(net.state_dict())
    assert other(torch.ones(3, 5, 6, 6)).shape == (3, 2)
    assert other[0].weight.equal(net[0].weight)
    wide = nn.LazyConvTranspose1d(6, 3, 2)
    assert wide(torch.ones(1, 3, 4)).shape == (1, 6, 9) and type(wide) is nn.ConvTranspose1d


def test_hook_tables_hold_hooks():
    import copy
    import pickle

    layer = torch.nn.Linear(2, 2)
    handle = layer.register_forward_pre_hook(doubled_inputs, with_kwargs=True)
    layer.register_forward_hook(as_it_is)
    assert list(layer._forward_pre_hooks.values()) == [doubled_inputs]
    assert list(layer._forward_hooks.values()) == [as_it_is]
    x = torch.ones(1, 2)
    want = layer(x)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(again(x), want)
    handle.remove()
    assert not torch.equal(layer(x), want)


def doubled_inputs(module, args, kwargs):
    return (args[0] * 2,), kwargs


def as_it_is(module, args, result):
    return None


def test_parameters_with_keywords_of_their_own():
    class Tagged(torch.nn.Parameter):
        def __new__(cls, data=None, requires_grad=True, *, tag=None):
            out = torch.Tensor._make_subclass(cls, data, requires_grad)
            out.tag = tag
            return out

    made = Tagged(torch.ones(2), tag=3)
    assert type(made) is Tagged and made.tag == 3 and made.requires_grad
    assert type(copy.deepcopy(made)) is Tagged
    assert pickle.loads(pickle.dumps(made)).tag == 3
