"""torch.library: operators that programs define, under every transform; replaced kernels."""

import numpy as np
import pytest

import tritorch as torch
from tritorch import library
from tritorch.utils._python_dispatch import TorchDispatchMode


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def scale():
    @library.custom_op("testlib::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * factor)

    @scale.register_fake
    def _(x, factor):
        return torch.empty_like(x)

    def backward(ctx, g):
        return g * ctx.factor, None

    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    scale.register_autograd(backward, setup_context=setup_context)
    return scale


def test_it_is_an_operator(scale):
    assert str(scale._opoverload._schema) == ("testlib::scale(Tensor x, float factor) -> Tensor")
    assert torch.ops.testlib.scale.default is scale._opoverload
    assert torch.ops.testlib.scale(torch.ones(2), 3.0).tolist() == [3, 3]
    assert repr(scale) == "<CustomOpDef(testlib::scale)>"


def test_gradients(scale):
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = scale(x, 2.5)
    assert y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [2.5] * 3
    assert torch.autograd.gradcheck(lambda x: scale(x, 2.0), x)


def test_vmap_by_a_rule_and_without(scale):
    x = torch.randn(4, 3)
    assert torch.vmap(lambda x: scale(x, 2.0))(x).equal(x * 2)
    calls = []

    @scale.register_vmap
    def rule(info, in_dims, x, factor):
        calls.append((info.batch_size, in_dims))
        return scale(x, factor), in_dims[0]

    assert torch.vmap(lambda x: scale(x, 2.0))(x).equal(x * 2)
    assert calls == [(4, (0, None))]
    weights = torch.randn(4, 3, requires_grad=True)
    torch.vmap(lambda x: scale(x, 3.0).sum())(weights).sum().backward()
    assert weights.grad.unique().tolist() == [3]


def test_meta_and_modes(scale):
    assert scale(torch.empty(2, 3, device="meta"), 2.0).shape == (2, 3)
    x = torch.ones(2, requires_grad=True)
    with Names() as mode:
        y = scale(x, 2.0)
    assert mode.seen == ["testlib.scale.default"] and y.requires_grad


def test_autocast(scale):
    scale.register_autocast("cpu", torch.bfloat16)
    kinds = []
    library.register_kernel(
        "testlib::scale", "cpu", lambda x, factor: kinds.append(x.dtype) or x + 0
    )
    scale(torch.ones(2), 1.0)
    with torch.autocast("cpu"):
        scale(torch.ones(2), 1.0)
    assert kinds == [torch.float32, torch.bfloat16]


def test_opcheck(scale):
    x = torch.randn(3, requires_grad=True)
    found = library.opcheck(scale, (x, 2.0))
    assert found == dict.fromkeys(found, "SUCCESS") and len(found) == 4

    @library.custom_op("testlib::writes", mutates_args=())
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.clone()

    found = library.opcheck(writes, (torch.ones(2),), raise_exception=False)
    assert "not defined as mutable" in str(found["test_schema"])


def test_written_arguments_and_lists():
    @library.custom_op("testlib::add_all_", mutates_args=("out",))
    def add_all(xs: list[torch.Tensor], out: torch.Tensor, times: int = 1) -> None:
        for x in xs:
            out.add_(x, alpha=times)

    out = torch.zeros(2)
    version = out._version
    assert add_all([torch.ones(2), torch.ones(2)], out, 3) is None
    assert out.tolist() == [6, 6] and out._version > version
    text = "testlib::add_all_(Tensor[] xs, Tensor(a1!) out, SymInt times=1) -> ()"
    assert str(add_all._opoverload._schema) == text

    @library.custom_op("testlib::two", mutates_args=())
    def two(xs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        return xs[0] + xs[1], xs[0] * xs[1]

    two.register_autograd(
        lambda ctx, a, b: ([a + b * ctx.xs[1], a + b * ctx.xs[0]],),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "xs", inputs[0]),
    )
    x, y = (torch.tensor([v], requires_grad=True) for v in (2.0, 5.0))
    total, product = two([x, y])
    (total + product).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (6, 3)


def test_results_may_not_share_inputs():
    @library.custom_op("testlib::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(torch.ones(2))


def test_without_a_formula_the_backward_pass_says_so():
    @library.custom_op("testlib::plain", mutates_args=())
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    y = plain(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_define_and_impl():
    with library._scoped_library("testlib2", "DEF") as lib:
        assert lib.define("twice(Tensor x) -> Tensor") == "twice"
        lib.impl("twice", lambda x: x * 2, "CPU")
        assert torch.ops.testlib2.twice(torch.ones(1)).item() == 2
        with pytest.raises(RuntimeError, match="already a kernel registered"):
            lib.impl("twice", lambda x: x, "CPU")
        with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
            library.Library("testlib2", "DEF")
        with pytest.raises(NotImplementedError, match="Could not run 'testlib2::none'"):
            lib.define("none(Tensor x) -> Tensor")
            torch.ops.testlib2.none(torch.ones(1))
    with pytest.raises(AttributeError):
        torch.ops.testlib2.twice  # noqa: B018
    library.define("testlib3::half", "(Tensor x) -> Tensor")
    library.impl("testlib3::half", "cpu", lambda x: x / 2)
    library.register_fake("testlib3::half", lambda x: torch.empty_like(x))
    assert torch.ops.testlib3.half(torch.ones(1)).item() == 0.5
    assert torch.ops.testlib3.half(torch.ones(1, device="meta")).is_meta


def test_kernels_can_be_got(scale):
    kernel = library.get_kernel("testlib::scale", "CPU")
    assert kernel.call_boxed(None, torch.ones(2), 3.0).tolist() == [3, 3]
    add = library.get_kernel("aten::add.Tensor", "CPU")
    assert add(None, torch.ones(1), torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="no kernel"):
        library.get_kernel("testlib::nothing", "CPU")


def test_a_kernel_made_of_operators_has_their_gradients():
    with library._scoped_library("testlib4", "DEF") as lib:
        lib.define("cube(Tensor x) -> Tensor")
        lib.impl("cube", lambda x: x**3, "CompositeImplicitAutograd")
        x = torch.tensor(2.0, requires_grad=True)
        torch.ops.testlib4.cube(x).backward()
        assert x.grad.item() == 12


@pytest.mark.parametrize("name", ["gelu", "softmax.int", "add.Tensor", "linear"])
def test_a_built_in_kernel_is_replaced(name):
    """On the simulated GPU; the CPU's stays, and leaving the library brings it back."""
    calls = []
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    run = {
        "gelu": lambda x, w: torch.nn.functional.gelu(x),
        "softmax.int": lambda x, w: x.softmax(-1),
        "add.Tensor": lambda x, w: x + x,
        "linear": torch.nn.functional.linear,
    }[name]
    want = run(x, w)

    def mine(*args, **kwargs):
        calls.append(name)
        args = [a.cpu() if isinstance(a, torch.Tensor) else a for a in args]
        return run(args[0], args[1] if len(args) > 1 else None).cuda()

    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl(name, mine, "CUDA")
        got = run(x.cuda(), w.cuda())
        np.testing.assert_allclose(got.cpu(), want, rtol=1e-5, atol=1e-6)
        assert calls == [name]
        run(x, w)
        assert calls == [name]
        g = x.cuda().requires_grad_()
        run(g, w.cuda()).sum().backward()
        assert g.grad is not None and len(calls) >= 2
    count = len(calls)
    run(x.cuda(), w.cuda())
    assert len(calls) == count


@pytest.mark.parametrize("wrong", ["x", "x: tuple[int]", "*x: int", "x: torch.Tensor = None"])
def test_annotations_that_are_no_schema(wrong):
    space = {"torch": torch}
    exec(f"def f({wrong}) -> int: ...", space)
    if wrong.endswith("None"):
        assert library.infer_schema(space["f"], mutates_args=()) == "(Tensor x=None) -> SymInt"
        return
    with pytest.raises(ValueError, match="infer_schema"):
        library.infer_schema(space["f"], mutates_args=())


def test_schemas_of_annotations():
    def f(
        x: torch.Tensor, y: torch.Tensor | None, n: int, s: list[int], *, k: float = 1.5,
        d: torch.dtype | None = None, flag: bool = False, word: str = "a",
    ) -> tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip

    assert library.infer_schema(f, mutates_args=("x",), op_name="f") == (
        "f(Tensor(a0!) x, Tensor? y, SymInt n, SymInt[] s, *, float k=1.5, ScalarType? d=None, "
        'bool flag=False, str word="a") -> (Tensor, Tensor)'
    )


def test_written_arguments_beside_ones_that_want_gradients():
    @library.custom_op("testlib::accumulate", mutates_args=("out",))
    def accumulate(x: torch.Tensor, out: torch.Tensor) -> None:
        out.add_(x.detach())

    x, out = torch.ones(2, requires_grad=True), torch.zeros(2)
    accumulate(x, out)
    assert out.tolist() == [1, 1] and not out.requires_grad


def test_a_call_makes_no_class(scale):
    x = torch.ones(2, requires_grad=True)
    assert type(scale(x, 2.0).grad_fn) is type(scale(x, 3.0).grad_fn)


def test_autocast_is_left_out_where_its_kernel_is_passed_over():
    a = torch.ones(2, 3)
    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl("mm", library.fallthrough_kernel, "AutocastCPU")
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.mm(a, a.t()).dtype is torch.float32
            assert torch.matmul(a, a.t()).dtype is torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.mm(a, a.t()).dtype is torch.bfloat16


def test_a_built_in_sum_is_replaced_in_all_its_forms():
    x = torch.tensor([1, 2])
    with library._scoped_library("aten", "IMPL", "CPU") as lib:
        lib.impl("sum", lambda x, *rest, **named: x.clone())
        assert torch.sum(x).tolist() == x.sum(0).tolist() == [1, 2]
        with pytest.raises(RuntimeError, match="inconsistent with the dispatch key"):
            lib.impl("sum", lambda x: x, "Conjugate")
    assert torch.sum(x) == 3


OBJECTS = {
    "ScalarType k=float32": (torch.float32, 6),
    "ScalarType k=bfloat16": (torch.bfloat16, 15),
    "ScalarType k=float8_e4m3fn": (torch.float8_e4m3fn, 24),
    "ScalarType? k=7": (torch.float64, 7),
    "Layout k=strided": (torch.strided, 0),
    "MemoryFormat k=contiguous_format": (torch.contiguous_format, 0),
    "MemoryFormat? k=2": (torch.channels_last, 2),
    "Device k='cpu'": (torch.device("cpu"), "cpu"),
}


@pytest.mark.parametrize("declared", OBJECTS)
def test_defaults_arrive_as_objects(declared):
    """Schemas write dtypes, layouts and formats as numbers, devices as text."""
    wanted, written = OBJECTS[declared]
    seen = []

    def kernel(x, k):
        seen.append(k)
        return x.clone()

    library = torch.library.Library("test_objects", "FRAGMENT")
    try:
        library.define(f"keep(Tensor x, {declared}) -> Tensor")
        library.impl("keep", kernel, "CPU")
        keep = torch.ops.test_objects.keep
        x = torch.ones(2)
        for call in (
            lambda: keep(x),
            lambda: keep.default(x),
            lambda: keep(x, wanted),
            lambda: keep(x, k=written),
            lambda: torch.compile(keep)(x),
        ):
            call()
        assert keep.default._schema.arguments[1].default_value in (written, wanted)
    finally:
        library._destroy()
    assert len(seen) >= 5 and all(k is wanted or k == wanted for k in seen)
    assert {type(k) for k in seen} == {type(wanted)}


def test_a_custom_operator_gets_its_dtype():
    seen = []

    @torch.library.custom_op("test_objects::cast", mutates_args=())
    def cast(
        x: torch.Tensor,
        dtype: torch.dtype = torch.float64,
        device: torch.device = torch.device("cpu"),  # noqa: B008 (as programs write it)
    ) -> torch.Tensor:
        seen.append((dtype, device))
        return x.to(device, dtype)

    assert cast(torch.ones(2)).dtype is torch.float64
    assert cast(torch.ones(2), torch.float16).dtype is torch.float16
    assert seen[0] == (torch.float64, torch.device("cpu"))

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.test_objects.cast.default:
                seen.append(args[1:])
            return function(*args, **(kwargs or {}))

    with Mode():
        cast(torch.ones(2))
        cast(torch.ones(2), torch.float64)
    assert [s for s in seen if len(s) < 2] == [(), ()]  # defaults are left out
