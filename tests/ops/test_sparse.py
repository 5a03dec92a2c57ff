"""Sparse tensors: gradients, the GPU, batches, checkpoints, optimizers; values are compared with
PyTorch's in tests/expressions."""

import io

import numpy as np
import pytest

import tritorch as torch
from tritorch.autograd import forward_ad, gradcheck, gradgradcheck
from tritorch.nn import functional as F
from tritorch.ops.record.operator import OPERATORS

DOUBLE = {"dtype": torch.float64}
PLACES = torch.tensor([[0, 1, 1, 0, 2], [2, 0, 2, 2, 1]])
DENSE = torch.tensor([[0.0, 1, 0], [2, 0, 3]])


def coo(values):
    return torch.sparse_coo_tensor(PLACES, values, (3, 3, *values.shape[1:]))


def numbers(*shape):
    count = int(np.prod(shape))
    values = np.sin(np.arange(1, count + 1) ** 1.5).reshape(shape)
    return torch.tensor(values.tolist(), **DOUBLE).requires_grad_()


def masked_square():
    return coo(torch.ones(5, **DOUBLE)).coalesce()


V, HYBRID, D, E = numbers(5), numbers(5, 2), numbers(3, 4), numbers(3, 3)
FUNCTIONS = {
    "to_dense": (lambda v: coo(v), V),
    "unmasked": (lambda v: coo(v).to_dense(masked_grad=False), V),
    "values": (lambda v: coo(v).coalesce().values(), V),
    "sparse.mm": (lambda v, d: torch.sparse.mm(coo(v), d), V, D),
    "mm": (lambda v, d: torch.mm(coo(v), d), V, D),
    "dense @ sparse": (lambda v, d: d.t() @ coo(v), V, D),
    "csr": (lambda v, d: torch.sparse.mm(coo(v).to_sparse_csr(), d), V, D),
    "sparse @ sparse": (lambda v: coo(v) @ coo(v).t(), V),
    "mv": (lambda v, d: coo(v).mv(d[:, 0]), V, D),
    "bmm": (lambda v, d: torch.bmm(torch.stack([coo(v)] * 2), torch.stack([d] * 2)), V, D),
    "mean": (lambda v, d: torch.sparse.mm(coo(v).to_sparse_csr(), d, "mean"), V, D),
    "amax": (lambda v, d: torch.sparse.mm(coo(v).to_sparse_csr(), d, "amax"), V, D),
    "addmm": (lambda v, d, e: torch.sparse.addmm(d, coo(v), e @ d, beta=2, alpha=3), V, D, E),
    "linear": (lambda v, e: F.linear(coo(v), e), V, E),
    "sampled": (
        lambda d, e: torch.sparse.sampled_addmm(masked_square().to_sparse_csr(), d, d.t() @ e), D, E
    ),
    "mul": (lambda v, e: coo(v) * e, V, E),
    "mul sparse": (lambda v: coo(v) * coo(v), V),
    "add": (lambda v, e: e + coo(v) * 2, V, E),
    "add sparse": (lambda v: coo(v) + coo(v).t(), V),
    "sub": (lambda v, e: e - coo(v), V, E),
    "div": (lambda v: coo(v) / 3, V),
    "pow": (lambda v: coo(v) ** 2, V),
    "neg": (lambda v: -coo(v), V),
    "sin": (lambda v: coo(v).sin(), V),
    "in place": (lambda v: coo(v * 1).mul_(2).add_(coo(v)), V),
    "into dense": (lambda v, e: (e * 1).add_(coo(v)), V, E),
    "sum": (lambda v: coo(v).sum(), V),
    "sparse.sum": (lambda v: torch.sparse.sum(coo(v), 1), V),
    "norm": (lambda v: coo(v).norm(), V),
    "softmax": (lambda v: torch.sparse.softmax(coo(v), 1), V),
    "log_softmax": (lambda v: torch.sparse.log_softmax(coo(v), 0), V),
    "select": (lambda v: coo(v)[0], V),
    "slice": (lambda v: coo(v)[0:2, 1:], V),
    "index_select": (lambda v: coo(v).index_select(1, torch.tensor([2, 2, 0])), V),
    "cat": (lambda v: torch.cat([coo(v), coo(v) * 2], 1), V),
    "stack": (lambda v: torch.stack([coo(v), coo(v) * 2]), V),
    "unsqueeze": (lambda v: coo(v).unsqueeze(1), V),
    "permute": (lambda v: coo(v).permute(1, 0), V),
    "transpose": (lambda v: coo(v).transpose(0, 1), V),
    "csr transposed": (lambda v: coo(v).to_sparse_csr().t(), V),
    "csr_tensor": (lambda v: torch.sparse_csr_tensor([0, 2, 4, 5], [0, 2, 0, 2, 1], v), V),
    "clone": (lambda v: coo(v).clone(), V),
    "complex": (lambda v: coo(v).to(torch.complex128), V),
    "hybrid": (lambda v: coo(v), HYBRID),
    "hybrid sum": (lambda v: torch.sparse.sum(coo(v), (0, 2)), HYBRID),
    "hybrid softmax": (lambda v: torch.sparse.softmax(coo(v), 2), HYBRID),
    "hybrid cat": (lambda v: torch.cat([coo(v)] * 2, 2), HYBRID),
    "to_sparse": (lambda e: e.to_sparse(), E),
    "to_csr": (lambda e: e.to_sparse_csr(), E),
    "to_csc": (lambda e: e.to_sparse_csc().to_sparse_coo(), E),
    "to_bsr": (lambda e: e.to_sparse_bsr((3, 1)), E),
    "to_bsc": (lambda e: e.to_sparse_bsc((1, 3)), E),
    "mask": (lambda e: e.sparse_mask(masked_square()), E),
    "spdiags": (lambda e: torch.sparse.spdiags(e, torch.tensor([0, 1, -1]), (3, 4)), E),
    "gather": (
        lambda e: torch.gather(e, 1, torch.tensor([[0, 1], [2, 2], [0, 0]]), sparse_grad=True), E
    ),
    "embedding": (lambda e: F.embedding(torch.tensor([0, 2, 2]), e, sparse=True), E),
}  # fmt: skip


def dense(x):
    return x.to_dense()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    function, *inputs = FUNCTIONS[name]
    result = lambda *xs: dense(function(*xs))
    if name not in ("gather", "embedding"):  # whose gradients are sparse tensors
        assert gradcheck(result, inputs)
        assert gradgradcheck(result, inputs)
        return
    weights = torch.arange(1.0, 1 + result(*inputs).numel(), **DOUBLE)
    (found,) = torch.autograd.grad((result(*inputs).reshape(-1) * weights).sum(), inputs)
    plain = {"gather": lambda e: torch.gather(e, 1, torch.tensor([[0, 1], [2, 2], [0, 0]])),
             "embedding": lambda e: F.embedding(torch.tensor([0, 2, 2]), e)}[name]  # fmt: skip
    (wanted,) = torch.autograd.grad((plain(*inputs).reshape(-1) * weights).sum(), inputs)
    assert found.is_sparse and torch.equal(found.to_dense(), wanted)


def test_every_sparse_record_is_reached():
    reached = set()
    for function, *inputs in FUNCTIONS.values():
        stack = [function(*inputs).grad_fn]
        while stack:
            node = stack.pop()
            if hasattr(node, "_node_op"):
                reached.add(node._node_op.name)
                stack.extend(edge for edge, _ in node.next_functions if edge is not None)
    sparse = {name: op for name, op in OPERATORS.items() if op.kind == "sparse"}
    wanted = {name for name, op in sparse.items() if op.differentiable}
    # The same under other titles, some of which other tests' calls make.
    titles = {name: op.backward_name.replace("Backward", "") for name, op in sparse.items()}
    variants = {
        name for name, title in titles.items()
        if name.endswith((f"_{title}", f"_{title.removesuffix('0')}"))
    }  # fmt: skip
    assert wanted - reached - variants == {"sparse_t", "sampled_mm", "dense_plus_sparse"} - reached


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", ["coo()", "csr()", "csc()", "bsr((3, 1))", "bsc((1, 3))"])
def test_sparse_gradcheck(kind, masked):
    x = torch.tensor([[0.0, 1, 0], [2, 0, 3], [0, 0, 4]], **DOUBLE)
    x = eval(f"x.to_sparse_{kind}", {"x": x}).requires_grad_()
    check = torch.sparse.as_sparse_gradcheck(gradcheck)
    for function in (
        lambda x: x.to_dense(masked_grad=masked), lambda x: x * 2, lambda x: x.to_sparse_csr(),
        lambda x: x.to_sparse_coo(), lambda x: x @ D.detach(),
    ):  # fmt: skip
        assert check(function, x, masked=masked)


def test_forward_mode_and_vmap():
    with forward_ad.dual_level():
        v = forward_ad.make_dual(V.detach(), torch.ones(5, **DOUBLE))
        out = forward_ad.unpack_dual(torch.sparse.mm(coo(v), D.detach()))
        ones = torch.sparse.mm(coo(torch.ones(5, **DOUBLE)), D.detach())
        assert torch.allclose(out.tangent, ones)
    many = torch.stack([D.detach(), 2 * D.detach()])
    found = torch.vmap(lambda d: torch.sparse.mm(coo(V.detach()), d))(many)
    assert torch.allclose(found[1], 2 * found[0])


@pytest.mark.device
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64", "int64",
                                  "complex64"])  # fmt: skip
def test_products_on_the_gpu(kind):
    kind = getattr(torch, kind)
    a = (torch.arange(63).reshape(7, 9) % 5 * (torch.arange(63).reshape(7, 9) % 3 == 0)).to(kind)
    b = (torch.arange(9 * 33).reshape(9, 33) % 7 - 3).to(kind)
    for sparse in (a.to_sparse(), a.to_sparse_csr()):
        found = torch.sparse.mm(sparse.cuda(), b.cuda())
        assert found.is_cuda and torch.equal(found.cpu(), torch.sparse.mm(sparse, b))
    mask = a.to_sparse_csr()
    found = torch.sparse.sampled_addmm(mask.cuda(), a.cuda()[:, :4], b.cuda()[:4, :9])
    wanted = torch.sparse.sampled_addmm(mask, a[:, :4], b[:4, :9])
    assert torch.equal(found.cpu().values(), wanted.values())
    assert torch.sparse.mm(a[:0].to_sparse().cuda(), b.cuda()).shape == (0, 33)


@pytest.mark.device
def test_the_rest_on_the_gpu():
    x = coo(V.detach().float())
    for function in (
        lambda x: x.coalesce(), lambda x: x + x.t(), lambda x: x * x, lambda x: x.sin(),
        lambda x: torch.sparse.sum(x, 0), lambda x: torch.sparse.softmax(x, 1), lambda x: x @ x,
        lambda x: x.to_sparse_csc(), lambda x: x.to_sparse_bsr((3, 1)), lambda x: x[0],
    ):  # fmt: skip
        found = function(x.cuda())
        assert found.is_cuda and torch.allclose(dense(found).cpu(), dense(function(x)), atol=1e-6)


def test_products_by_rows_of_all_lengths():
    lengths = [0, 1, 300, 2, 2, 0, 1, 40]
    a = torch.zeros(len(lengths), 400, **DOUBLE)
    for row, n in enumerate(lengths):
        a[row, :n] = torch.arange(1.0, n + 1, **DOUBLE)
    for m in (1, 3, 128):
        b = numbers(400, m).detach()
        for kind in (torch.float64, torch.float32, torch.bfloat16):
            found = torch.sparse.mm(a.to(kind).to_sparse_csr(), b.to(kind))
            wanted = (a.to(kind).float().double() @ b.to(kind).double()).to(kind)
            close = {"rtol": 2e-2, "atol": 64.0} if kind is torch.bfloat16 else {"rtol": 1e-3}
            assert torch.allclose(found.double(), wanted.double(), **close)


@pytest.mark.parametrize("kind", ["coo()", "csr()", "csc()", "bsr((2, 1))", "bsc((1, 3))"])
def test_checkpoints(kind):
    x = eval(f"x.to_sparse_{kind}", {"x": DENSE})
    file = io.BytesIO()
    torch.save({"x": x, "p": torch.nn.Parameter(x)}, file)
    file.seek(0)
    found = torch.load(file)
    assert repr(found["x"]) == repr(x)
    assert isinstance(found["p"], torch.nn.Parameter) and found["p"].layout is x.layout


def test_checkpoints_are_checked():
    bad = torch.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,))
    file = io.BytesIO()
    torch.save(bad, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="found index 7"):
        torch.load(file)


def test_gradients_of_both_kinds_add_up():
    w = torch.ones(3, 2, requires_grad=True)
    rows = lambda: F.embedding(torch.tensor([1, 1]), w, sparse=True).sum()
    rows().backward()
    assert w.grad.is_sparse and w.grad._nnz() == 2
    rows().backward()
    assert w.grad.is_sparse and w.grad.to_dense().tolist() == [[0, 0], [4, 4], [0, 0]]
    w.sum().backward()
    assert not w.grad.is_sparse
    rows().backward()
    assert w.grad.tolist() == [[1, 1], [7, 7], [1, 1]]


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.Adagrad(p, lr=0.1),
])  # fmt: skip
def test_optimizers_as_with_dense_gradients(make):
    found = []
    for sparse in (True, False):
        w = torch.arange(6.0).reshape(3, 2).requires_grad_()
        optimizer = make([w])
        for index in ([1, 1], [2, 0], [1]):
            optimizer.zero_grad()
            F.embedding(torch.tensor(index), w, sparse=sparse).pow(2).sum().backward()
            optimizer.step()
        found.append(w)
    assert torch.allclose(*found)


def test_optimizers_that_refuse():
    w = torch.ones(3, 2, requires_grad=True)
    F.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    for name in ("Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"):
        optimizer = getattr(torch.optim, name)([w])
        with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
            optimizer.step()


def test_detached_tensors_share_values_but_not_size():
    x = coo(V.detach())
    y = x.detach()
    y.neg_()
    assert torch.equal(x._values(), y._values())
    y.zero_()
    assert (x._nnz(), y._nnz()) == (5, 0)


def test_invariants_on_request():
    checks = torch.sparse.check_sparse_tensor_invariants
    bad = lambda: torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,))
    bad()
    with checks(), pytest.raises(RuntimeError, match="found index 5"):
        bad()
    with pytest.raises(RuntimeError, match="found index 5"):
        checks()(bad)()
    checks.enable()
    assert checks.is_enabled()
    checks.disable()
    bad()


@pytest.mark.device
def test_semi_structured():
    dense = torch.tensor([[0, 1.0, 2, 0] * 16] * 32).half().cuda()
    x = torch.sparse.to_sparse_semi_structured(dense)
    assert x.shape == (32, 64) and x.packed.shape == (32, 32)
    assert torch.equal(x.to_dense(), dense) and torch.equal(x.t().to_dense(), dense.t())
    a = torch.ones(8, 64).half().cuda()
    assert torch.equal(F.linear(a, x), F.linear(a, dense))
    assert torch.equal(x @ a.t(), dense @ a.t())
    with pytest.raises(NotImplementedError, match="is not supported"):
        x.sin()
    with pytest.raises(RuntimeError, match="Only CUDA tensors"):
        torch.sparse.to_sparse_semi_structured(torch.ones(32, 64).half())
    with pytest.raises(RuntimeError, match="a multiple of"):
        torch.sparse.to_sparse_semi_structured(torch.ones(3, 64).half().cuda())


def test_assert_close():
    for x in (DENSE.to_sparse(), DENSE.to_sparse_csr(), DENSE.to_sparse_bsc((2, 1))):
        torch.testing.assert_close(x, x * 1.0)
        kind = x.layout.name[7:].upper()
        with pytest.raises(AssertionError, match=f"Sparse {kind} values are not close"):
            torch.testing.assert_close(x, x * 2.0)
        with pytest.raises(AssertionError, match="'layout' do not match"):
            torch.testing.assert_close(x, DENSE)
        torch.testing.assert_close(x, DENSE, check_layout=False)
    fewer = torch.zeros(2, 3).to_sparse()
    with pytest.raises(AssertionError, match="The number of specified values in sparse COO"):
        torch.testing.assert_close(DENSE.to_sparse(), fewer)


def test_nan_to_num():
    x = torch.tensor([[0.0, float("nan")], [float("inf"), 1]]).to_sparse()
    assert x.nan_to_num(5.0, 6.0).to_dense().tolist() == [[0, 5], [6, 1]]
