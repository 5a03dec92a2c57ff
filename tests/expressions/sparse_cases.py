"""Expressions of sparse tensors; see cases.py."""

NAMES = ("coo", "csr", "csc", "bsr", "bsc")


def show(x):
    """The parts of a tensor of any layout, and how it came about."""
    if isinstance(x, (tuple, list)):
        return tuple(map(show, x))
    if not hasattr(x, "layout"):
        return x
    node = type(x.grad_fn).__name__ if x.grad_fn is not None else x.requires_grad
    kind = str(x.layout).rpartition(".")[2]
    head = (kind, str(x.dtype).rpartition(".")[2], tuple(x.shape))
    if kind == "strided":
        return (*head, x.detach().tolist())
    if kind == "sparse_coo":
        parts = (x._indices(), x._values())
    elif kind in ("sparse_csr", "sparse_bsr"):
        parts = (x.crow_indices(), x.col_indices(), x.values())
    else:
        parts = (x.ccol_indices(), x.row_indices(), x.values())
    parts = [_rounded(part.detach().tolist()) for part in parts]
    return (*head, *parts, node)


def _rounded(value):
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) + 0 if isinstance(value, float) else value


def error(function):
    """An exception's class, and its message up to the first sentence's end."""
    try:
        return show(function())
    except Exception as exception:
        return type(exception).__name__, str(exception).split("backend.")[0].split(". ")[0]


def grad(function, x):
    """The gradient of the sum of f(x)'s elements, times 1, 2, 3, ..."""
    x = x.detach().requires_grad_()
    out = function(x)
    out = out if str(out.layout).endswith("strided") else out.to_dense()
    weights = out.detach().clone().fill_(1).reshape(-1).cumsum(0).reshape(out.shape)
    (out * weights).sum().backward()
    return show(x.grad)


def names(torch):
    """What the expressions see."""
    tensor = torch.tensor
    return {
        "F": torch.nn.functional, "show": show, "error": error, "grad": grad,
        "make": torch.sparse_coo_tensor,
        "sparse": __import__(f"{torch.__name__}.sparse", fromlist=["sparse"]),
        "D": tensor([[0.0, 1, 0], [2, 0, 3]]), "H": torch.arange(12.0).reshape(2, 3, 2),
        "d": tensor([[1.0, -1], [2, 0.5], [0.25, 4]]), "K": {"check_invariants": True},
        "u": lambda: torch.sparse_coo_tensor([[0, 1, 0, 1], [1, 0, 1, 2]], [1.0, 2, 3, 4], (2, 3)),
        "layouts": [getattr(torch, f"sparse_{name}") for name in NAMES],
    }  # fmt: skip


CONSTRUCTION = """
    error(lambda: make([[0, -1]], [1.0, 2.0]))
    error(lambda: make([[0, 5]], [1.0, 2.0], (2,), **K))
    error(lambda: make([[0, -5]], [1.0, 2.0], (2,), **K))
    error(lambda: make([[0, 1], [1, 1]], [1.0, 2.0], (2,), **K))
    error(lambda: make(torch.tensor([0, 1]), torch.ones(2)))
    error(lambda: make(torch.tensor(0), torch.ones(2)))
    show(make([[0, 1]], [1.0, 2.0], (2,), is_coalesced=True, **K))
    error(lambda: make([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True, **K))
    error(lambda: make([[1, 0]], [[1.0, 2.0], [1, 2]], (2, 3)))
    error(lambda: make([[0, 1]], [1.0, 2, 3], (3,)))
    error(lambda: make([[0, 1]], [1, 2], (3, 4, 5)))
    show(make([[0, 1.5]], [1, 2], dtype=torch.float64))
    show(make(torch.empty(1, 0), torch.empty(0)))
    show(make((2, 3)))
    show(make(torch.zeros(0, 3, dtype=torch.long), torch.ones(3), ()).to_dense())
    show(make([[0, 1]], [[1.0, 2], [3, 4]], (3, 2)))
    error(lambda: torch.sparse_csr_tensor([0, 1, 2], [1, 2], [1.0, 2.0], (2,), **K))
    error(lambda: torch.sparse_csr_tensor([0, 1], [1, 2], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([1, 1, 2], [1, 2], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 1, 3], [1, 2], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 0, 2], [2, 1], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 1, 2], [1, -2], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 1, 2], [1, 2], [1.0, 2.0, 3], (2, 4)))
    error(lambda: torch.sparse_csr_tensor([0, 1, 2], [[1, 2]], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 5, 2], [1, 2], [1.0, 2.0], (2, 4), **K))
    error(lambda: torch.sparse_csr_tensor([0, 1, 2], [1, 2], [1, 2], layout=torch.sparse_csc))
    show(torch.sparse_csr_tensor([0, 1, 2], [1, 2], [1, 2], dtype=torch.float64))
    show(torch.sparse_csr_tensor([[0, 1], [0, 1]], [[0], [1]], [[1.0], [2]]))
    show(torch.sparse_csc_tensor([0, 1, 2], [1, 2], [1.0, 2.0]))
    show(torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 3)))
    show(torch.sparse_bsc_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 3)))
    error(lambda: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2), (2, 2), **K))
    error(lambda: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 3), (5, 6), **K))
    error(lambda: torch.sparse_compressed_tensor([0, 1, 2], [1, 2], [1.0, 2.0]))
    error(lambda: torch.sparse_compressed_tensor([0], [1], [1.0], layout=torch.sparse_coo))
    show(torch.zeros(2, 3, layout=torch.sparse_coo))
    show(torch.zeros(2, 3, layout=torch.sparse_csr))
    error(lambda: torch.ones(2, layout=torch.sparse_coo))
    show(sparse.spdiags(torch.ones(2, 3), torch.tensor([0, -1]), (3, 3), torch.sparse_csr))
    error(lambda: sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 0]), (3, 3)))
    error(lambda: sparse.spdiags(torch.ones(2, 3), torch.tensor([0]), (3, 3)))
    error(lambda: sparse.spdiags(torch.ones(2, 3), torch.tensor([0.0, 1]), (3, 3)))
    sparse.check_sparse_tensor_invariants.is_enabled()
"""
CONVERSION = """
    [show(D.to_sparse(layout=kind)) for kind in layouts[:3]]
    [show(D.to_sparse(layout=kind, blocksize=(2, 1))) for kind in layouts[3:]]
    [show(H.to_sparse(n)) for n in (1, 2, 3)]
    show(H.to_sparse_csr())
    show(H.to_sparse_csr(dense_dim=1))
    show(torch.eye(4).to_sparse_bsr((2, 2)))
    show(torch.eye(4).to_sparse_bsc((2, 2)))
    error(lambda: D.to_sparse(0))
    error(lambda: D.to_sparse(3))
    error(lambda: D.to_sparse(layout=torch.sparse_bsr))
    error(lambda: D.to_sparse().to_sparse(1))
    show(D.to_sparse_csr().to_sparse_csc())
    show(D.to_sparse_csr().to_sparse())
    show(u().to_sparse_csr())
    show(u().coalesce())
    show(u().to_dense())
    error(lambda: u().indices())
    error(lambda: u().values())
    show(u()._indices())
    show(u()._values())
    error(lambda: D.coalesce())
    error(lambda: D.values())
    error(lambda: D.indices())
    error(lambda: D._nnz())
    error(lambda: D.crow_indices())
    error(lambda: D.to_sparse_csr().indices())
    error(lambda: D.to_sparse_csr().ccol_indices())
    error(lambda: D.to_sparse_csr().coalesce())
    (D.sparse_dim(), D.dense_dim(), H.to_sparse(2).sparse_dim(), H.to_sparse(2).dense_dim())
    (u().is_sparse, u().is_sparse_csr, D.to_sparse_csr().is_sparse_csr, u()._nnz(), u().numel())
    u().type().rpartition("sparse.")[2]
    show(torch.ones(2, 3).sparse_mask(D.to_sparse()))
    show(torch.ones(2, 3).sparse_mask(D.to_sparse_csr()))
    show(D.to_sparse().sparse_resize_((4, 5), 2, 0))
    show(D.to_sparse().sparse_resize_and_clear_((4, 5), 1, 1))
    show(u().resize_as_sparse_(D.to_sparse()))
    error(lambda: u().stride())
    error(lambda: u().storage())
    error(lambda: u().numpy())
    error(lambda: u().tolist())
    error(lambda: u().contiguous())
    error(lambda: u().reshape(3, 2))
    error(lambda: D.to_sparse_csr().stride())
    error(lambda: D.clone().copy_(D.to_sparse()))
    show(D.to_sparse().copy_(D.to_sparse() * 2))
    show(pickle.loads(pickle.dumps(u())))
    show(copy.deepcopy(u()))
    show(u().zero_())
    show(torch.zeros_like(D.to_sparse()))
    show(torch.zeros_like(D.to_sparse_csr()))
    u()
    D.to_sparse().requires_grad_().coalesce().is_leaf
    make((2, 0))
"""
ARITHMETIC = """
    show(D.to_sparse() + D.to_sparse())
    show(u() + u())
    show(u() * u())
    show(D.to_sparse() * u())
    show(D + u())
    show(D - u())
    show(torch.add(D, u(), alpha=2))
    show(u() * D)
    show(D * u())
    show(u() * 2)
    show(u() / 2)
    show(D.to_sparse() // 2)
    show(u() * torch.tensor(2.0))
    show(D.to_sparse() * torch.ones(4, 2, 3))
    show(-u())
    show(u() ** 2)
    show(D.to_sparse_csr() * 2)
    show(D.to_sparse_csr() + D.to_sparse_csr())
    show(D.to_sparse_csr() * D.to_sparse_csr())
    show(D.to_sparse_csr() + D)
    [show(getattr(u(), name)()) for name in ("abs", "sin", "relu", "sign", "isnan", "log1p")]
    [show(getattr(D.to_sparse_csr(), name)()) for name in ("abs", "sin", "neg", "relu", "expm1")]
    error(lambda: u() + D)
    error(lambda: u() + 1)
    error(lambda: 2 - u())
    error(lambda: u() / D)
    error(lambda: u().cos())
    [x.is_coalesced() for x in (u(), u() * 2, D.to_sparse() * 2, u().t(), torch.cat([u(), u()]))]
    error(lambda: u().pow(0))
    error(lambda: u().sin_())
    error(lambda: D.to_sparse() + torch.ones(3).to_sparse())
    error(lambda: D.to_sparse() * torch.ones(3).to_sparse())
    show(D.to_sparse().mul_(3))
    show(D.to_sparse().add_(D.to_sparse()))
    show(D.to_sparse().div_(2))
    show(D.to_sparse().neg_())
    show(D.clone().add_(u()))
    show(u().double())
    show(u().bool())
"""
SHAPES = """
    show(u().t())
    show(D.to_sparse_csr().t())
    show(H.to_sparse(2).transpose(0, 1))
    show(u()[0])
    show(u()[:, 2])
    show(u()[0, 1])
    show(D.to_sparse_csr()[0])
    show(D.to_sparse_csr()[0, 1])
    show(H.to_sparse(2).select(-1, 1))
    show(D.to_sparse().index_select(0, torch.tensor([1, 0])))
    show(torch.cat([u(), u()]))
    show(torch.cat([H.to_sparse(2)] * 2, 2))
    show(torch.stack([u(), u()]))
    show(u().unsqueeze(0))
    show(H.to_sparse(2).unsqueeze(-1))
    show(u().unbind())
    len(u())
    show(u().narrow_copy(1, 1, 2))
    error(lambda: u()[torch.tensor([0])])
    error(lambda: u().expand(2, 2, 3))
    error(lambda: H.to_sparse(2).permute(2, 0, 1))
"""
PRODUCTS = """
    [show(D.to_sparse(layout=kind) @ d) for kind in layouts[:3]]
    show(D.to_sparse() @ d[:, 0])
    show(d.t() @ D.t().to_sparse_csr())
    show(D.to_sparse() @ D.t().to_sparse())
    show(D.to_sparse_csr() @ D.to_sparse_csr().t())
    show(torch.addmm(torch.ones(2, 2), D.to_sparse(), d, beta=2, alpha=3))
    show(torch.smm(D.to_sparse(), d))
    show(torch.hspmm(D.to_sparse(), d))
    show(torch.sspaddmm(torch.eye(2).to_sparse(), D.to_sparse(), d))
    show(torch.bmm(torch.stack([D, D]).to_sparse(), torch.stack([d, d])))
    show(torch.nn.functional.linear(D.to_sparse(), torch.ones(2, 3)))
    show(torch.nn.functional.linear(torch.ones(2, 3), D.to_sparse()))
    show(sparse.mm(D.to_sparse(), d))
    show(sparse.mm(D, d))
    [show(sparse.mm(D.to_sparse_csr(), d, how)) for how in ("sum", "mean", "amax", "amin")]
    error(lambda: sparse.mm(D.to_sparse_csr(), d, "prod"))
    error(lambda: sparse.mm(D.to_sparse(), d, "sum"))
    show(sparse.addmm(torch.ones(2, 2), D.to_sparse(), d, beta=2, alpha=3))
    show(sparse.sampled_addmm(D.to_sparse_csr(), d.t(), torch.ones(3, 3)))
    show(u().sum())
    show(u().sum(0))
    show(D.to_sparse().sum(1, keepdim=True))
    show(sparse.sum(u()))
    show(sparse.sum(u(), 1))
    show(sparse.sum(H.to_sparse(2), (0, 2)))
    show(sparse.sum(D.to_sparse(), dtype=torch.float64))
    error(lambda: sparse.sum(D))
    show(sparse.softmax(D.to_sparse(), 1))
    show(sparse.softmax(H.to_sparse(2), 2))
    show(sparse.log_softmax(D.to_sparse(), 1, dtype=torch.float64))
    error(lambda: sparse.softmax(D, 1))
    show(u().norm())
    show(u().any())
"""
GRADIENTS = """
    grad(lambda x: torch.mm(x, d), D.to_sparse())
    grad(lambda x: torch.mm(x, d), D.to_sparse_csr())
    grad(lambda x: sparse.mm(x, d), u())
    grad(lambda x: sparse.mm(D.to_sparse(), x), d)
    grad(lambda x: x * 2, u())
    grad(lambda x: x + x, D.to_sparse())
    grad(lambda x: D + x, D.to_sparse())
    grad(lambda x: x * D, D.to_sparse())
    grad(lambda x: x.to_dense(), D.to_sparse_csr())
    grad(lambda x: x.to_dense(masked_grad=False), D.to_sparse())
    grad(lambda x: x.coalesce().values(), u())
    grad(lambda x: x.sum(), u())
    grad(lambda x: sparse.sum(x), u())
    grad(lambda x: sparse.sum(x, 0), D.to_sparse())
    grad(lambda x: sparse.softmax(x, 1), D.to_sparse())
    grad(lambda x: x.t(), D.to_sparse())
    grad(lambda x: x.to_sparse(), D)
    grad(lambda x: x.to_sparse_csr(), D)
    grad(lambda x: x.sparse_mask(u().coalesce()), D)
    grad(lambda x: make([[0, 0, 1], [1, 1, 2]], x, (2, 3)), torch.ones(3))
    grad(lambda x: F.embedding(torch.tensor([1, 2, 1]), x, sparse=True), d)
    grad(lambda x: torch.gather(x, 1, torch.tensor([[0, 1], [1, 1]]), sparse_grad=True), d)
    grad(lambda x: F.embedding(torch.tensor([1]), x, sparse=True).sum() + x.sum(), d)
"""
FAMILIES = {
    "sparse_construction": CONSTRUCTION,
    "sparse_conversion": CONVERSION,
    "sparse_arithmetic": ARITHMETIC,
    "sparse_shapes": SHAPES,
    "sparse_products": PRODUCTS,
    "sparse_gradients": GRADIENTS,
}
