"""Expressions that PyTorch's own tests of eager mode ask: numbers alone, indexing, sizes, storages."""

from .lines import each, lines

FAMILIES = {}

FAMILIES["numbers_alone"] = [
    *each("torch.@(7, 2)", "add sub mul div true_divide floor_divide multiply subtract divide"),
    *each("torch.@(2, 3.0)", "add mul sub div"),
    *lines("""
        torch.add(True, False)
        torch.add(1, 1, alpha=True)
        torch.add(2, v), torch.subtract(2, v), torch.multiply(2, v)
        torch.div(7, 2, rounding_mode="floor"), torch.div(7, 2, rounding_mode="trunc")
    """),
]

FAMILIES["deprecated_overloads"] = lines("""
    torch.add(v, 2, v)
    torch.sub(v, 2, v)
    torch.addcmul(v, 2, v, v)
    torch.addcdiv(v, 2, v, v)
    torch.addmm(2, x, 3, x, x)
    torch.addmm(2, x, x, x)
    torch.addmv(2, x[0], 3, x, x[1])
    torch.addr(2, x, 3, x[0], x[1])
    torch.baddbmm(2, x[None], 3, x[None], x[None])
    torch.addbmm(2, x, 3, x[None], x[None])
    torch.add(v, torch.tensor(3.0), 2.0)
    torch.add(torch.tensor(True), torch.tensor(True), True)
""")

_KEYS = ["[0, 1]", "torch.tensor([0, 1])", "(slice(None), [1])", "0", "slice(0, 1)", "b", "x > 0",
         "torch.tensor(1)", "(0, torch.tensor(1))", "(b, slice(0, 1))"]  # fmt: skip
FAMILIES["writes_of_another_dtype"] = [
    f"x[{key}] = {value}; x"
    for key in _KEYS
    for value in ("torch.tensor(5)", "torch.tensor([5])", "torch.tensor(5.0, dtype=torch.float64)")
] + lines("""
    x.index_put_((torch.tensor([0]),), torch.tensor(5))
    x.index_put_((b,), torch.tensor(5))
    x.index_put_((b,), torch.tensor([5, 6]))
    i[[0, 1]] = torch.tensor(2.5); i
    i[torch.tensor([True, False, True])] = torch.tensor(2.5); i
    i[:] = i[1]; i
    i[1:] = i[:2]
    v.copy_(v[0])
    x[x > 0] = np.array([7.0, 8.0, 9.0]); x
""")

FAMILIES["indexing_errors"] = lines("""
    torch.empty(10, 0)[:, [0, 1]]
    torch.tensor_split(v, torch.tensor(1.1))
    torch.tensor_split(v, torch.tensor([[1]]))
    torch.unravel_index(i, torch.tensor([1, 2, 3]))
    torch.unravel_index(i, (1, 2, 2.0))
    torch.unravel_index(i, 5)
    torch.unravel_index(i, (2, -3))
    torch.unravel_index(v, (2, 3))
    torch.unravel_index(i, (2, 3))
    torch.randn(()).index_add(0, torch.tensor([0]), torch.randn(1, 1, 1))
    v.index_add(0, torch.tensor([0]), torch.randn(1, 1))
    x.index_add(0, torch.tensor([0]), torch.randn(1, 3))
    x.diff(dim=0, prepend=torch.ones(1, 4))
    x.diff(dim=0, append=torch.ones(1, 4))
    x.diff(dim=0, prepend=v)
    x.diff(0), x.diff(-1)
    torch.tensor(1.0).diff()
""")

FAMILIES["sizes_that_overflow"] = lines("""
    torch.empty((), dtype=torch.float64).resize_([2, 4, 2**29, 2**29])
    torch.empty((), dtype=torch.float64).resize_([8, 8, 2**29, 2**29])
    torch.empty((), dtype=torch.float64).resize_([0, 4, 2305843009213693952])
    torch.empty([0, 4, 2305843009213693952])
    torch.zeros(2**40, 2**40)
    torch.set_num_threads(10**18)
    torch.set_num_threads(2**63)
    torch.set_num_interop_threads(2**31)
    torch.set_num_threads(-1)
""")

FAMILIES["layout_questions"] = lines("""
    torch.empty(2, 2, 1, 2).dim_order(ambiguity_check=True)
    torch.empty(2, 3).dim_order(ambiguity_check=True)
    torch.empty(2, 2, 1, 2).dim_order(ambiguity_check=[torch.contiguous_format])
    torch.empty(2, 2, 1, 2).dim_order(ambiguity_check=[torch.contiguous_format, torch.channels_last])
    torch.ones(1, 2).expand(3, 2).dim_order(ambiguity_check=True)
    torch.empty(2, 2, 1, 2).dim_order(ambiguity_check="x")
    torch.tensor([]).is_set_to(torch.tensor([])), torch.empty(0, 3).is_set_to(torch.empty(0, 3))
    v.is_set_to(v), v.is_set_to(v[:]), v.is_set_to(v.detach()), v.is_set_to(v.view(3, 1))
    v.is_set_to(v[1:]), v.is_set_to(v.clone())
""")

FAMILIES["views_of_another_dtype"] = [
    *each(
        "(lambda r: (r.requires_grad, r.grad_fn, r))(g.view(torch.@))",
        "float32 int32 float64 int16 complex64 uint8",
    ),
    *lines("""
        torch.tensor(v.untyped_storage(), dtype=torch.float32)
        torch.tensor(v.untyped_storage(), dtype=torch.int16)
        torch.tensor(i.untyped_storage())
        torch.as_tensor(v.untyped_storage(), dtype=torch.float32)
        torch.tensor(v.storage())
    """),
]

FAMILIES["gradients_of_strides"] = each(
    "torch.autograd.grad((@).pow(2).sum(), g)",
    [
        "g.expand(2, 3).as_strided([3, 3], [0, 1], 0)",
        "g.expand(3, 3).as_strided([2, 2], [1, 1], 0)",
        "g.as_strided([2, 2], [1, 1], 0)",
        "g.as_strided([2, 2], [0, 1], 1)",
        "g[None].expand(2, 3).t().as_strided([3, 2], [1, 0], 0)",
    ],
)

FAMILIES["numbers_with_history"] = lines("""
    float(g.sum())
    complex(g.sum())
    int(g.sum()), bool(g.sum())
    g.sum().item()
    float(v.sum())
""")

FAMILIES["storages_of_another_dtype"] = lines("""
    v.new(size=(3, 4)).shape
    v.new(i)
    v.new(i.storage())
    torch.tensor(i.storage(), dtype=torch.float32)
    torch.tensor(i.storage())
    torch.tensor([]).set_(i.storage())
    torch.tensor([]).set_(v.storage())
    torch.tensor([]).set_(i.storage(), 0, (2,), (1,))
    torch.tensor(torch.UntypedStorage(10)).shape
    torch.tensor(v.untyped_storage()[:5], dtype=torch.float32)
    v.set_(v.untyped_storage(), 65, v.size())
    v.set_(v.untyped_storage(), 1, (2,))
    v.set_(v.untyped_storage(), 4, torch.Size([2, 3])).storage_offset()
    v.copy_(3.5), v.copy_(True), i.copy_(2.7)
    v.copy_([1])
""")

_BAG = "w = torch.arange(12.0).view(4, 3); o = torch.tensor([0]); F.embedding_bag(@)"
FAMILIES["embedding_bags"] = [
    *each(_BAG, [
        f"torch.tensor([0, {bad}]), w, o, mode='{mode}'{padding}"
        for bad in (9, -1) for mode in ("sum", "mean", "max") for padding in ("", ", padding_idx=0")
    ]),
    *each(_BAG, [
        "i[:2], w, o, per_sample_weights=torch.ones(2, dtype=torch.float64), mode='sum'",
        "i[:2], w, o, per_sample_weights=v, mode='sum'",
        "i[:2], w, o, per_sample_weights=v[:2], mode='mean'",
        "i[None], w, o", "i, w", "i[None, None], w", "i, w, o[None]", "i, w, o + 1",
        "i, w, torch.tensor([0, 4])", "i.int(), w, o", "v, w, o",
        "i, w, torch.tensor([0, 1, 3]), include_last_offset=True", "i, w, o, padding_idx=9",
    ]),
    *lines("""
        nn.EmbeddingBag(4, 3, padding_idx=4)
        nn.Embedding(4, 3, padding_idx=-5)
        e = nn.Embedding(0, 0, sparse=True); e(i[:0]).sum().backward(); e.weight.grad.shape
    """),
]  # fmt: skip

FAMILIES["outputs_of_factories"] = [
    *each("o = torch.zeros(2, 3); torch.@(0, 3, 4, out=o.narrow(1, 1, 2)); o", "linspace logspace"),
    *lines("""
        o = torch.zeros(2, 3); torch.arange(0, 4, out=o.narrow(1, 1, 2)); o
        torch.zeros(2, 3, out=torch.empty(2, 3), dtype=torch.float64)
        torch.ones((2,), out=torch.empty(2, dtype=torch.float64), dtype=torch.float32)
        torch.zeros(2, out=torch.empty(2), layout=torch.sparse_coo)
        torch.randperm(300, out=torch.empty(300, dtype=torch.uint8))
        torch.randperm(2**25, out=torch.empty(1, dtype=torch.float32))
        torch.randperm(3000, out=torch.empty(1, dtype=torch.float16))
        torch.block_diag()
        torch.cat([torch.empty(0), torch.empty(0)], dim=1)
        torch.repeat_interleave(v)
        torch.repeat_interleave(b)
        torch.as_tensor((lambda deep: (deep.append(deep), deep)[1])([]))
        p = torch.utils.dlpack.to_dlpack(v); torch.asarray(p), torch.asarray(v, copy=True)
    """),
    *each("v.uniform_(@)", ["0, 1e40", "float('-inf'), 0", "float('nan'), 1", "3, 1",
                            "-3e38, 3e38"]),
    *each("torch.@(2, dtype=torch.int64, requires_grad=True)", "ones empty rand zeros"),
    *each("torch.@(3, requires_grad=True)", "arange randperm"),
    "torch.tensor([1], requires_grad=True)",
    "v.new_ones(2, dtype=torch.int64, requires_grad=True)",
    "i.requires_grad_()",
    *each("torch.asarray(@, copy=False)", [
        "1.0", "np.float32(1)", "v, dtype=torch.float64", "v, device='meta'", "[1, 2]", "v",
    ]),
]  # fmt: skip

_META = 's = torch.TypedStorage([1, 2, 3, 4], device="meta", dtype=torch.float32); '
FAMILIES["meta_storages"] = [
    *each(_META + "s.@()", "cpu tolist share_memory_ _share_fd_cpu_ _share_filename_cpu_ pin_memory"),
    *each(_META + "s.untyped().@()", "cpu tolist share_memory_ _share_fd_cpu_"),
    *each(_META + "@", [
        "s.resize_(10); len(s)", "list(s.untyped())", "s.untyped().fill_(3).nbytes()",
        "torch.TypedStorage([1, 2, 3, 4], dtype=torch.float32).copy_(s)",
        "s.untyped().copy_(torch.UntypedStorage(3))", "s.untyped().clone().nbytes()",
    ]),
]  # fmt: skip
