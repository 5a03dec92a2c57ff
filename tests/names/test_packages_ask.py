"""What packages ask of PyTorch's private files: marks, settings, tables, helpers of optimizers."""

import pytest

import tritorch as torch
from tritorch import _decomp
from tritorch._inductor import config as inductor
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.optim import optimizer as helpers


def test_marks_of_sizes():
    x = torch.zeros(2, 3)
    torch._dynamo.mark_dynamic(x, [0, 1], min=2, max=8)
    torch._dynamo.maybe_mark_dynamic(x, 1)
    torch._dynamo.mark_static(x)
    torch._dynamo.mark_unbacked(x, 0, shape_id="batch")
    assert x._dynamo_dynamic_indices == x._dynamo_static_indices == {0, 1}
    assert {(r.dim, r.min, r.max) for r in x._dynamo_dynamic_range} == {(0, 2, 8), (1, 2, 8)}
    assert x._dynamo_weak_dynamic_indices == {1} and x._dynamo_shape_ids == {0: "batch"}
    torch._dynamo.mark_static_address(x, guard=True)
    assert x._dynamo_static_input_type == "guarded"
    with pytest.raises(TypeError, match="mark_static_address expects a tensor"):
        torch._dynamo.mark_static_address(1)
    with pytest.raises(AssertionError, match="Expected index to be int"):
        torch._dynamo.mark_dynamic(x, "a")
    assert torch._dynamo.graph_break("here") is None and torch._dynamo.run(len)([]) == 0


def test_settings_of_the_compiler():
    """Names, defaults, sections, aliases, patches, and what is saved of them."""
    before = inductor.get_hash()
    assert inductor.max_autotune_gemm_search_space == "DEFAULT" and inductor.is_default("debug")
    with inductor.patch({"triton.cudagraphs": True, "max_autotune": True}):
        assert inductor.triton.cudagraphs and inductor.get_hash() != before
        assert set(inductor.save_config_portable()) == {"triton.cudagraphs", "max_autotune"}
        saved = inductor.save_config()
    assert not inductor.triton.cudagraphs and inductor.get_hash() == before
    inductor.load_config(saved)
    assert inductor.max_autotune
    inductor.load_config({"triton.cudagraphs": False})
    del inductor.max_autotune
    assert inductor.get_hash() == before and "cudagraphs" in dir(inductor.triton)
    dynamo = torch._dynamo.config
    with dynamo.patch(cache_size_limit=3):
        assert dynamo.recompile_limit == 3
    for change in (lambda: inductor.nothing, lambda: setattr(inductor, "nothing", 1),
                   lambda: setattr(inductor.triton, "nothing", 1)):  # fmt: skip
        with pytest.raises(AttributeError, match="nothing does not exist"):
            change()
    with pytest.raises(Exception, match="settings hold no posix.system"):
        inductor.load_config(b"cposix\nsystem\n(S'true'\ntR.")


def test_decompositions():
    """A table of one's own, registered by operator, is what a graph is made of."""
    table = {}

    @_decomp.register_decomposition([torch.ops.aten.silu, torch.ops.aten.addcmul.default], table)
    def expanded(*args, value=1):
        x, *rest = args
        return x * x.sigmoid() if not rest else x + value * (rest[0] * rest[1])

    assert torch.ops.aten.silu.default in table and torch.ops.aten.addcmul.default in table
    with pytest.raises(RuntimeError, match="duplicate registrations"):
        _decomp.register_decomposition(torch.ops.aten.silu.default, table)(expanded)
    x = torch.randn(3)
    graph = make_fx(torch.nn.functional.silu, decomposition_table=table)(x)
    targets = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert targets == ["aten.sigmoid.default", "aten.mul.Tensor"]
    torch.testing.assert_close(graph(x), torch.nn.functional.silu(x))
    _decomp.remove_decompositions(table, [torch.ops.aten.silu])
    assert list(table) == [torch.ops.aten.addcmul.default]
    assert _decomp.get_decompositions([torch.ops.aten.relu]) == {}


def test_operators_of_other_namespaces_are_named():
    """They have PyTorch's schemas, and say at a call that they are not there yet."""
    gather = torch.ops._c10d_functional.all_gather_into_tensor.default
    assert str(gather._schema) == (
        "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, Any group_name) "
        "-> Tensor"
    )
    with pytest.raises(NotImplementedError, match="tritorch has no _c10d_functional::isend"):
        torch.ops._c10d_functional.isend.default(torch.ones(2), 1, 0, "")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        torch.ops._c10d_functional.nothing  # noqa: B018


def test_schemas_name_dtypes():
    library = torch.library.Library("names_dtypes", "DEF")
    library.define("to(Tensor x, ScalarType kind=bfloat16) -> Tensor")
    schema = torch.ops.names_dtypes.to.default._schema
    assert schema.arguments[1].default_value == 15 and "ScalarType kind=15" in str(schema)


def test_helpers_of_optimizers():
    class Plain(torch.optim.Optimizer):
        def __init__(self, params, differentiable=False):
            super().__init__(params, {"differentiable": differentiable})

        @helpers._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    p = torch.nn.Parameter(torch.zeros(2))
    assert not Plain([p]).step() and Plain([p], differentiable=True).step()
    assert helpers._default_to_fused_or_foreach([p], False, True) == (True, False)
    assert helpers._default_to_fused_or_foreach([p], False) == (False, False)
    assert helpers._default_to_fused_or_foreach([p], True, True) == (False, False)
    assert helpers._get_value(torch.tensor(3.0)) == 3.0 and helpers._to_scalar(p[:1]).ndim == 0
    params, grads = [torch.zeros(2, dtype=torch.complex64)], [torch.ones(2, dtype=torch.complex64)]
    helpers._view_as_real(params, grads)
    assert params[0].shape == grads[0].shape == (2, 2)
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params"):
        helpers._device_dtype_check_for_fused(torch.zeros(1, dtype=torch.int64))


def test_a_list_of_operands_is_told_one_by_one():
    """einsum's overrides see the operands as arguments, however they are given."""
    graph = torch.fx.symbolic_trace(lambda a, b: torch.einsum("ij,jk->ik", [a, b])).graph
    node = next(n for n in graph.nodes if n.op == "call_function")
    assert [str(a) for a in node.args] == ["ij,jk->ik", "a", "b"]


def test_questions_about_triton():
    from tritorch.utils import _triton

    assert _triton.has_triton_package() and _triton.get_triton_version() >= (3, 6)
    assert isinstance(_triton.has_triton(), bool)


def test_hooks_of_all_modules_are_where_packages_look():
    module = torch.nn.modules.module
    handle = module.register_module_forward_hook(lambda *a: None)
    assert len(module._global_forward_hooks) == 1 and module._has_any_global_hook()
    handle.remove()
    assert not module._global_forward_hooks and not module._global_parameter_registration_hooks
