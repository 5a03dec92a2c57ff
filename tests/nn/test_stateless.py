"""Modules called with other tensors, and their members by name."""

import pytest

import tritorch as torch
from tritorch.nn.utils._named_member_accessor import NamedMemberAccessor


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(1, 1)
        self.register_buffer("shift", torch.zeros(1))
        self.tied = self.inner.bias
        self.seen = {}

    def forward(self, x):
        self.seen = {name: id(each) for name, each in self.named_parameters(remove_duplicate=False)}
        return self.inner(x) + self.shift + self.tied


def test_tensors_are_exchanged_under_new_names_too():
    module = Tied()
    bias, extra = module.inner.bias, torch.nn.Parameter(torch.ones(1))
    given = {"inner.bias": torch.full((1,), 2.0), "inner.extra": extra}
    torch.func.functional_call(module, given, torch.zeros(1))
    assert module.seen["inner.extra"] == id(extra)
    assert module.inner.bias is bias is module.tied and not hasattr(module.inner, "extra")
    with pytest.raises(TypeError, match=r"^<class 'list'> is not an instance of torch.Tensor$"):
        torch.func.functional_call(module, {"inner.weight": bias, "tied": list}, torch.zeros(1))
    assert module.inner.weight is not bias
    said = r"Unexpected key\(s\): 'a', 'b'.\n\tMissing key\(s\): 'inner.bias', 'inner.weight', 's"
    with pytest.raises(RuntimeError, match=said):
        torch.func.functional_call(module, {"b": bias, "a": bias}, torch.zeros(1), strict=True)
    with pytest.raises(ValueError, match=r"^\['a', 'b'\] appeared in multiple dictionaries; behav"):
        torch.func.functional_call(module, ({"a": 1, "b": 2}, {"b": 1, "a": 1}), ())
    with pytest.raises(
        ValueError, match="Expected all elements of parameter_and_buffer_dicts to b"
    ):
        torch.func.functional_call(module, ({}, 3), ())


def test_members_by_name():
    module = Tied()
    accessor = NamedMemberAccessor(module)
    weight, other = module.inner.weight, torch.ones(1, 1)
    assert accessor.get_tensors(["inner.weight", "shift"]) == [weight, module.shift]
    assert accessor.swap_tensors(["inner.weight"], [other]) == [weight]
    assert accessor.get_tensor("inner.weight") is other is module.inner._parameters["weight"]
    accessor.set_tensors_dict({"inner.weight": weight, "shift": None})
    assert module.inner.weight is weight and "shift" in module._buffers
    with pytest.raises(RuntimeError, match=r"^Missing key\(s\): 'inner.x'.$"):
        accessor.swap_tensors_dict({"inner.weight": other, "inner.x": other})
    assert module.inner.weight is weight and not hasattr(module.inner, "x")
    before, missing = accessor.swap_tensors_dict({"inner.x": other}, allow_missing=True)
    assert missing == ["inner.x"] and module.inner.x is other
    accessor.swap_tensors_dict(before, allow_missing=True)
    assert not hasattr(module.inner, "x")
    new = torch.nn.Linear(1, 1)
    former = accessor.swap_submodule("inner", new)
    assert accessor.get_tensor("inner.weight") is new.weight is not former.weight
    accessor.del_tensors(["inner.bias"])
    assert accessor.check_keys(["tied", "y"]) == (["inner.weight"], ["y"])
    for call, error, said in (
        (
            lambda: accessor.get_tensor("inner.y"),
            AttributeError,
            "Linear has no attribute `inner.y`",
        ),
        (lambda: accessor.get_tensor("z.y"), AttributeError, "Tied has no attribute `z`"),
        (lambda: accessor.get_tensor("seen"), TypeError, "{.*} is not an instance of torch.Tensor"),
        (
            lambda: accessor.get_submodule("tied"),
            TypeError,
            "(?s)submodule `tied`: .* is not an in",
        ),
        (lambda: accessor.del_tensor("y"), AttributeError, "Tied has no attribute `y`"),
        (lambda: accessor.swap_tensor("y", other), AttributeError, "Tied has no attribute `y`"),
        (lambda: accessor.set_tensors(["y"], []), AssertionError, "got 1 names and 0 values"),
        (lambda: accessor.swap_submodule("y", new), KeyError, "submodule y does not exist"),
        (lambda: accessor.set_tensor("", other), KeyError, "name can.*t be empty string"),
        (lambda: accessor.set_tensor("y", 3), TypeError, "3 is not an instance of torch.Tensor"),
    ):
        with pytest.raises(error, match=said):
            call()


def test_models_that_differ_are_not_stacked():
    stack, linear = torch.func.stack_module_state, torch.nn.Linear
    models = [linear(2, 2), linear(2, 2)]
    params, buffers = stack(models)
    assert params["weight"].shape == (2, 2, 2) and params["weight"].is_leaf and buffers == {}
    models[0].bias.requires_grad_(False)
    with pytest.raises(
        RuntimeError, match="Expected bias from each model to have the same .requir"
    ):
        stack(models)
    models[1].bias.requires_grad_(False)
    assert not stack(models)[0]["bias"].requires_grad
    with pytest.raises(RuntimeError, match="to have the same training/eval mode"):
        stack([linear(1, 1), linear(1, 1).eval()])
    with pytest.raises(RuntimeError, match="to be of the same class"):
        stack([linear(1, 1), torch.nn.Identity()])
