"""Old programs' use of torch.jit: ScriptModule classes, calls that are put off."""

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


def test_a_script_module_is_compiled_when_it_is_made(tmp_path):
    module, x = Scaled(), torch.ones(1, 2)
    assert torch.equal(module(x), module.inner(x) * 3)
    assert isinstance(module, torch.jit.ScriptModule)
    assert list(module.state_dict()) == ["inner.weight", "inner.bias"]
    module.save(str(tmp_path / "x"))
    assert torch.jit.load(tmp_path / "x")(x).equal(module(x))
    with pytest.raises(ValueError, match="The provided filename x does not exist"):
        torch.jit.load("x")
    with pytest.raises(TypeError, match=r"^torch\._C\.AliasDb: No constructor defined!$"):
        torch.AliasDb()
    with torch.jit.strict_fusion():
        assert torch.jit.CompilationUnit().find_function("f") is None


def test_calls_that_are_put_off():
    from tritorch import jit

    calls = []
    put_off = jit._awaitable(lambda x: calls.append(x) or [x], 3)
    assert not calls and not put_off.is_nowait() and put_off.args() == (3,)
    assert put_off.count(3) == 1 and jit._awaitable_wait(put_off) == [3] and calls == [3]
    assert jit._awaitable_nowait("there").is_nowait() and type(put_off).__name__ == "_Await"
