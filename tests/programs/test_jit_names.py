"""What old programs say of torch.jit: their modules run as they are, what is not there says so."""

import pytest

import tritorch as torch


class Scaled(torch.jit.ScriptModule):
    __constants__ = ("factor",)

    def __init__(self):
        super().__init__()
        self.factor = 3
        self.inner = torch.nn.Linear(2, 2)

    @torch.jit.script_method
    def forward(self, x):
        return self.inner(x) * self.factor


def test_a_script_module_is_a_module_that_runs():
    module, x = Scaled(), torch.ones(1, 2)
    assert torch.equal(module(x), module.inner(x) * 3)
    assert isinstance(module, torch.jit.ScriptModule)
    assert not isinstance(module.inner, torch.jit.ScriptModule)
    assert list(module.state_dict()) == ["inner.weight", "inner.bias"]
    for use in (lambda: module.save("x"), lambda: torch.jit.save(module, "x"),
                lambda: torch.jit.load("x"), lambda: torch.jit.CompilationUnit("def f(): pass"),
                lambda: torch.parse_ir("graph(): return ()"), torch.Graph):  # fmt: skip
        with pytest.raises(NotImplementedError, match=r"^tritorch has no torch\.\S+ yet: TorchSc"):
            use()
    with pytest.raises(TypeError, match=r"^torch\._C\.Value: No constructor defined!$"):
        torch.Value()
    with torch.jit.strict_fusion():
        assert torch.jit.CompilationUnit().find_function("f") is None


def test_calls_that_are_put_off():
    from tritorch import jit

    calls = []
    put_off = jit._awaitable(lambda x: calls.append(x) or [x], 3)
    assert not calls and not put_off.is_nowait() and put_off.args() == (3,)
    assert put_off.count(3) == 1 and jit._awaitable_wait(put_off) == [3] and calls == [3]
    assert jit._awaitable_nowait("there").is_nowait() and type(put_off).__name__ == "_Await"
