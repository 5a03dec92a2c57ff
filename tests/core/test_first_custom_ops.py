"""torch._custom_ops: operators that are declared by name, and told later what computes them."""

import numpy as np
import pytest

import tritorch as torch
from tritorch import _custom_ops as first
from tritorch._custom_op.impl import CustomOp, global_registry


@pytest.fixture
def op():
    first.custom_op("firstlib::cube", "(Tensor x) -> Tensor")
    yield torch.ops.firstlib.cube
    if "firstlib::cube" in global_registry:
        first._destroy("firstlib::cube")


def cubed(x):
    return torch.from_numpy(np.asarray(x.numpy() ** 3))


def test_what_computes_is_told_later(op):
    with pytest.raises(NotImplementedError, match="no cpu impl registered"):
        op(torch.ones(2))
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel"):
        op(torch.ones(2, device="meta"))
    first.impl("firstlib::cube")(cubed)
    assert op(torch.full((2,), 2.0)).tolist() == [8, 8]
    with pytest.raises(RuntimeError, match=r"already has a cpu impl registered .*test_first"):
        first.impl("firstlib::cube", device_types="cpu")(cubed)
    first.impl_abstract("firstlib::cube")(lambda x: x.new_empty(x.shape))
    assert op(torch.ones(2, device="meta")).shape == (2,)


def test_gradients_by_the_names_of_inputs(op):
    first.impl("firstlib::cube")(cubed)
    x = torch.full((2,), 2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="Autograd has not been implemented"):
        op(x)
    first.impl_save_for_backward("firstlib::cube")(lambda inputs, output: {"x": inputs.x})
    with pytest.raises(RuntimeError, match="unable to find a 'backward' registration"):
        op(x)
    found = {}
    first.impl_backward("firstlib::cube")(
        lambda ctx, saved, g: found or {"x": 3 * saved["x"] ** 2 * g}
    )
    op(x).sum().backward()
    assert x.grad.tolist() == [12, 12]
    found["y"] = None
    with pytest.raises(RuntimeError, match="to have keys {'x'} but got"):
        op(x).sum().backward()
    found.clear()
    found["x"] = 1
    with pytest.raises(RuntimeError, match="either None or a Tensor"):
        op(x).sum().backward()


def test_what_is_no_operator_is_refused():
    for name, schema, words in (
        ("firstlib::a.b", "(Tensor x) -> Tensor", "do not handle overloads"),
        ("aten::a", "(Tensor x) -> Tensor", "reserved namespace"),
        ("firstlib::a", "(Tensor(a!) x) -> ()", "only supports functional operators"),
        ("firstlib::a", "(Tensor self) -> Tensor", "arguments named 'self'"),
    ):
        with pytest.raises(ValueError, match=words):
            first.custom_op(name, schema)
    with pytest.raises(AssertionError, match="Invalid function schema: a"):
        first.custom_op("firstlib::a", "(")
    with pytest.raises(RuntimeError, match="constructor is private"):
        CustomOp(None, None, None, None, None)


def test_without_a_formula_a_kernel_s_own_operators_are_recorded():
    with torch.library._scoped_library("firstlib", "FRAGMENT") as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CPU")
        lib.define("copied(Tensor x) -> Tensor")
        lib.impl("copied", lambda x: torch.from_numpy(x.detach().numpy().copy()), "CPU")
        x = torch.ones(2, requires_grad=True)
        torch.ops.firstlib.twice(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
        with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
            torch.ops.firstlib.copied(x).sum().backward()
        assert x.grad.tolist() == [2, 2]


def test_a_size_that_depends_on_data():
    from tritorch._subclasses.fake_tensor import (
        DynamicOutputShapeException,
        FakeTensorMode,
    )
    from tritorch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

    @torch.library.custom_op("firstlib::places", mutates_args=())
    def places(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(np.argwhere(x.numpy())))

    @places.register_fake
    def _(x):
        n = torch.library.get_ctx().new_dynamic_size(max=x.numel())
        return x.new_empty(n, x.ndim, dtype=torch.int64)

    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        out = places(mode.from_tensor(torch.ones(3, 4), static_shapes=True))
    assert len(free_unbacked_symbols(out.shape)) == 1 and out.shape[1] == 2
    assert out.shape[0].range == (0, 12)
    with FakeTensorMode() as mode, pytest.raises(DynamicOutputShapeException):
        places(mode.from_tensor(torch.ones(3, 4)))
    with pytest.raises(RuntimeError, match="meta Tensors"):
        places(torch.ones(3, 4, device="meta"))
    assert torch.library.opcheck(places, (torch.ones(2, 2),))["test_faketensor"] == "SUCCESS"
