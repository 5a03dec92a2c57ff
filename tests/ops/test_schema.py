"""What records say of themselves in ATen's terms: names, types and results of their real calls."""

from __future__ import annotations

import collections
import inspect

import numpy as np
import pytest
from table import CASES
from test_infer import MORE, gradients, on_meta
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch import _C
from tritorch.arrays.symbolic import SymFloat, SymInt
from tritorch.core.published import FUNCTIONAL, PUBLIC
from tritorch.ops.record.operator import OPERATORS, Operator
from tritorch.schema import table, types
from tritorch.schema.tensor_type import TensorType

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),  # beta, it says
    pytest.mark.usefixtures("alone"),
]

# Records that no case of the table calls: in place, inside of vmap, on a GPU alone, random.
ELSEWHERE = {
    "binomial_drawn", "dropout_again", "from_batched",
    "grid_sampler_backward", "identity", "lobpcg",
    "scaled_product", "to_batched", "triangular_inverse", "view", "linalg_eigvals",
    "linalg_eigvalsh", "linalg_svdvals", "matmul_batches", "drawn_by",
    "tensor", "flat_offsets", "choices", "rrelu_slopes", "kept_labels",  # in compiled programs
    "nll_rows",  # where no gradient is wanted
}  # fmt: skip
# Seen at fast paths, in tests/ops/test_dispatch.py, test_sparse.py, and in tests/nested.
OTHER_KINDS = ("pointwise", "factory", "random", "in_place", "sparse", "nested")
RANDOM = {"poisson_drawn", "standard_gamma_drawn", "dirichlet_drawn"}
PYTHON = {
    types.BoolType: (bool,),
    types.IntType: (int, SymInt),
    types.SymIntType: (int, SymInt),
    types.FloatType: (float, int, SymFloat),
    types.NumberType: (int, float, complex, np.generic, SymInt, SymFloat),
    types.StringType: (str,),
    types.DeviceObjType: (torch.device,),
    types.GeneratorType: (torch.Generator,),
    types.ScalarTypeType: (torch.dtype,),
    types.MemoryFormatType: (torch.memory_format,),
    types.LayoutType: (torch.layout,),
}


def is_a(value, kind, size=None):
    """Whether a value is of a schema's type."""
    if isinstance(kind, types.OptionalType):
        return value is None or is_a(value, kind.getElementType(), size)
    if isinstance(kind, types.ListType):
        inside = kind.getElementType()
        if size is not None and not isinstance(value, (list, tuple)):
            return is_a(value, inside)  # int[2] x=1
        return isinstance(value, (list, tuple)) and all(is_a(each, inside) for each in value)
    if isinstance(kind, types.AnyType):
        return plain(value)
    if isinstance(kind, TensorType):
        return isinstance(value, torch.Tensor)
    if type(value) is bool:
        return isinstance(kind, (types.BoolType, types.NumberType))
    return isinstance(value, PYTHON[type(kind)])


def plain(value):
    """Data, and no object with a life of its own."""
    if isinstance(value, (list, tuple)):
        return all(map(plain, value))
    return value is None or isinstance(value, (bool, int, float, str, SymInt))


def function_of(schema):
    """The public function that a schema names, if there is one."""
    name = schema.name.removeprefix("aten::")
    for module in ("linalg", "special", "fft"):
        if name.startswith(f"{module}_") and hasattr(
            getattr(torch, module), name[len(module) + 1 :]
        ):
            return getattr(getattr(torch, module), name[len(module) + 1 :])
    found = PUBLIC.get(name) or getattr(torch.Tensor, name, None)
    if found is None and (found := FUNCTIONAL.get(name)) is not None:
        # Python's functions have other arguments than ATen's, some of them.
        theirs = [a.name for a in schema.arguments]
        ours = list(inspect.signature(found).parameters)
        flags = "reduction" in theirs or f"{name}_" in FUNCTIONAL  # words, `inplace`
        if ours[1 : len(theirs)] != theirs[1:] or flags:
            return None
    return found


def what_is_wrong(op, tensors, params, result):
    schema, args, kwargs = op.as_call(tensors, params)
    arguments = {a.name: a for a in schema.arguments}
    given = dict(zip((a.name for a in schema.arguments if not a.kwarg_only), args)) | kwargs
    if len(given) != len(args) + len(kwargs):
        return f"{len(args)} arguments for {schema}"
    for name, value in given.items():
        if name not in arguments:
            return f"no argument {name} in {schema}"
        kind = arguments[name].real_type
        if op.kind == "pointwise" and not isinstance(value, torch.Tensor):
            kind = types.OptionalType(types.NumberType.get())
        if not is_a(value, kind, arguments[name].N):
            return f"{name}: {value!r} is no {kind}"
    missing = [
        a.name for a in schema.arguments if a.name not in given and not a.has_default_value()
    ]
    if missing:
        return f"without {missing}: {schema}"
    if len(result if isinstance(result, tuple) else (1,)) != len(schema.returns):
        return f"{result!r} are not {len(schema.returns)} results"
    # PyTorch does not say that wait_tensor gives its argument.
    shares = any(a.alias_info is not None for a in schema.returns) or op.name == "wait_tensor"
    if shares != (op.is_view or schema.is_mutable):
        return f"{'a view' if op.is_view else 'no view'}: {schema}"
    return ""


class Watch:
    """Looks at every call of a record, by `call` or, where a fast path is taken, on meta."""

    def __init__(self, monkeypatch, look):
        self.seen = collections.Counter()
        self.wrong = {}
        run, infer = Operator.call, Operator.infer

        def watched(op, tensors, params=()):
            result = run(op, tensors, params)
            self.note(op, look(op, tensors, params, result))
            return result

        def asked(op, specs, params=()):
            result = infer(op, specs, params)
            tensors = [_C.wrap(x) if hasattr(x, "strides") else x for x in specs]
            self.note(op, look(op, tensors, params, result))
            return result

        monkeypatch.setattr(Operator, "call", watched)
        monkeypatch.setattr(Operator, "infer", asked)

    def note(self, op, wrong):
        self.seen[op.name] += 1
        if wrong:
            self.wrong[op.name] = wrong


UNKNOWN = {"nonzero", "masked_select", "unique", "unique_consecutive", "bincount"}


# What records compute and no public function of ours has the name or the arguments of.
UNNAMED = {
    "_ctc_loss", "_ctc_loss_backward", "_fft_c2c", "_fft_c2r", "_fft_r2c", "_fused_rms_norm",
    "_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward",
    "_log_softmax_backward_data", "_softmax_backward_data", "_to_copy", "alias",
    "binary_cross_entropy", "diagonal_backward", "elu", "embedding_dense_backward", "hardsigmoid",
    "hardswish", "hardtanh", "huber_loss", "index", "leaky_relu", "mish", "mse_loss",
    "select_backward", "slice_backward", "smooth_l1_loss", "soft_margin_loss",
    "upsample_bilinear2d", "upsample_bilinear2d_backward", "upsample_nearest2d",
    "upsample_nearest2d_backward",
}  # fmt: skip


def test_calls_fit_their_schema(monkeypatch):
    watch = Watch(monkeypatch, what_is_wrong)
    for case in CASES + MORE:
        xs = leaves(case)
        gradients(outputs(call(case, xs)), xs)
        if case.name not in UNKNOWN:
            metas = [on_meta(x) for x in xs]
            gradients(outputs(call(case, metas, "meta")), metas)
    assert not watch.wrong, "\n".join(f"{k}: {v}" for k, v in watch.wrong.items())
    structured = {name for name, op in OPERATORS.items() if op.kind not in OTHER_KINDS}
    assert structured - set(watch.seen) - UNKNOWN == ELSEWHERE


def test_what_the_schema_names_gives_the_same(monkeypatch, without_plans):
    without, compared = set(), set()
    inside = []

    def look(op, tensors, params, result):
        if (
            inside
            or op.name in RANDOM
            or not all(isinstance(x, torch.Tensor) for x in tensors if x is not None)
        ):
            return ""
        if any(x is not None and x.is_meta for x in tensors):
            return ""
        schema, args, kwargs = op.as_call(tensors, params)
        if not schema.name.startswith("aten::"):
            return ""
        if schema.is_mutable:
            args = (args[0].detach().clone(), *args[1:])
        function = function_of(schema)
        if function is None:
            without.add(schema.name.removeprefix("aten::"))
            return ""
        compared.add(op.name)
        inside.append(op)
        try:
            with torch.no_grad():
                found = function(*args, **kwargs)
        except Exception as error:
            return f"{schema}: {type(error).__name__}: {error}"
        finally:
            inside.pop()
        for got, want in zip(outputs(found), outputs(result)):
            if want is None or got is None:
                continue
            want = want.detach()
            if (
                got.shape != want.shape
                or got.dtype != want.dtype
                or not np.allclose(got.detach().numpy(), want.numpy(), equal_nan=True, atol=1e-6)
            ):
                return f"{schema}: {got} is not {want}"
        return ""

    watch = Watch(monkeypatch, look)
    for case in CASES + MORE:
        xs = leaves(case)
        gradients(outputs(call(case, xs)), xs)
    assert not watch.wrong, "\n".join(f"{k}: {v}" for k, v in watch.wrong.items())
    assert without == UNNAMED


def test_the_table_reads_back():
    """Every schema of ATen is written as it was read."""
    count = 0
    for name in table.names():
        for overload in table.overloads(name):
            schema = table.find(name, overload)
            assert (schema.name, schema.overload_name) == (f"aten::{name}", overload)
            count += 1
    assert count == 3754
    assert str(table.find("sum", "dim_IntList")) == (
        "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
        "dtype=None) -> Tensor"
    )
    with pytest.raises(KeyError):
        table.find("sum", "nothing")


def test_every_record_has_a_schema():
    for op in OPERATORS.values():
        schema = op.schema
        if schema.name.startswith("tritorch::"):
            assert [a.name for a in schema.arguments] == [*op.inputs, *op.params], op.name


def test_docs_begin_with_the_forms_of_a_call():
    assert torch.add.__doc__.startswith("add(input, other, *, alpha=1, out=None) -> Tensor\n\n")
    assert torch.Tensor.add_.__doc__.startswith("add_(other, *, alpha=1) -> Tensor\n\n")
    assert torch.sort.__doc__.splitlines()[:2] == [
        "sort(input, dim=-1, descending=False, *, out=None) -> (Tensor, Tensor)",
        "sort(input, *, stable, dim=-1, descending=False, out=None) -> (Tensor, Tensor)",
    ]
    assert torch.is_tensor.__doc__ == "Whether an object is a tensor."
