"""What keeps programs running: compiled modules, and jit, which runs what it is given."""

import copy
import pickle

import pytest

import tritorch as torch


def test_compile_and_jit():
    @torch.compile
    def double(x):
        return x * 2

    @torch.compile(mode="max-autotune", fullgraph=True)
    def triple(x):
        return x * 3

    @torch.jit.ignore
    def ignored(x):
        return x

    net = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert (double(ignored(torch.ones(1))) + triple(torch.ones(1))).item() == 5
    assert isinstance(net, torch.jit.ScriptModule)
    assert torch.compile(net, disable=True) is net and not torch.jit.is_scripting()


def test_a_compiled_module():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    compiled = torch.compile(net, mode="reduce-overhead", backend="inductor")
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [name for name, _ in compiled.named_modules()] == ["", "_orig_mod", "_orig_mod.0"]
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    x = torch.randn(3, 2)
    assert compiled(x).equal(net(x)) and compiled._orig_mod is net and len(compiled) == 1
    assert not net.eval().training and not compiled.training and compiled.train() is compiled
    assert net.training
    compiled.extra = 3
    assert net.extra == 3 and "extra" in dir(compiled)
    del compiled.extra
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'extra'"):
        compiled.extra  # noqa: B018
    compiled.register_forward_hook(lambda m, args, out: out * 2)
    assert compiled(x).equal(2 * net(x))
    other = copy.deepcopy(compiled)
    assert other._orig_mod is not net and other(x).equal(compiled(x))
    again = pickle.loads(pickle.dumps(torch.compile(net)))
    again.load_state_dict(compiled.state_dict())
    net.compile()
    assert list(net.state_dict()) == ["0.weight", "0.bias"] and again(x).equal(net(x))
    assert torch.compile(torch.nn.Linear(1, 1)) and torch.compile(compiled)._orig_mod is net


def test_compile_checks_its_arguments():
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        torch.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        torch.compile(mode="default", options={})
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'>"):
        torch.compile(3)
