"""Cases of the names that PyTorch's own parts use: packed weights, dispatch keys, torch.jit's."""

FAMILIES = {}

FAMILIES["packed_linear"] = """
    torch.fbgemm_linear_quantize_weight(w), torch.fbgemm_linear_quantize_weight(-w)
    torch.fbgemm_linear_quantize_weight(one[:0]), torch.fbgemm_linear_quantize_weight(w * 0)
    torch.fbgemm_linear_quantize_weight(x), torch.fbgemm_linear_quantize_weight(w.t())
    torch.fbgemm_linear_quantize_weight(w.double())
    torch.fbgemm_linear_quantize_weight(w[0])
    torch.fbgemm_pack_quantized_matrix(w)
    torch.fbgemm_pack_quantized_matrix(w.to(torch.int8)[0])
    torch.fbgemm_pack_gemm_matrix_fp16(w.double())
    torch.fbgemm_linear_int8_weight(y[..., :3], *int8(x), one[0, :1].expand(4))
    torch.fbgemm_linear_int8_weight_fp32_activation(x, *int8(x - 2), w[:, 1])
    torch.fbgemm_linear_int8_weight(x[:0], *int8(x), w[:, 0]), int8(x)[1].dtype
    torch.fbgemm_linear_int8_weight(x * 0, *int8(x), w[:, 0])
    torch.fbgemm_linear_int8_weight(x.clone().requires_grad_(), *int8(x), w[:, 0]).requires_grad
    torch.fbgemm_linear_int8_weight(x[0], *int8(x), w[:, 0])
    torch.fbgemm_linear_int8_weight(x[:, :2], *int8(x), w[:, 0])
    torch.fbgemm_linear_int8_weight(x, *int8(x), w[0])
    torch.fbgemm_linear_int8_weight(x.double(), *int8(x), w[:, 0])
    torch.fbgemm_linear_int8_weight(x, *int8(x)[:3], 1, 2, w[:, 0])
    torch.fbgemm_linear_int8_weight(x, *int8(x)[:3], 1.0, 2.0, w[:, 0])
    torch.fbgemm_linear_fp16_weight(y[..., :3], fp16(x), w[:, 0])
    torch.fbgemm_linear_fp16_weight_fp32_activation(x, fp16(x * 1e5), None)
    torch.fbgemm_linear_fp16_weight(x, fp16(w), w[:, 0], torch.empty(0)), fp16(x).dtype
    torch.fbgemm_linear_fp16_weight(x[:, :2], fp16(w), w[:, 0])
    torch.fbgemm_linear_fp16_weight(x[0], fp16(w), w[:, 0])
    torch.fbgemm_linear_fp16_weight(x.half(), fp16(w), w[:, 0])
    cell("rnn_relu", 1), cell("rnn_tanh", 1), cell("gru", 3), cell("lstm", 4)
    cell("gru", 3, slice(2))
    [layer(reverse)[:3] for reverse in (False, True)]
    [part.shape for part in layer(False, h[0], h[1])[:3]]
    """

FAMILIES["dispatch_keys"] = """
    {name: int(key) for name, key in sorted(Key.__members__.items())}
    [repr(Key(number)) for number in (0, 1, 2, 47, 48, 49, 64, 150, 155, 156, 9999)]
    str(Key.CPU), Key.CPU.name, Key.CPU.value, Key.EndOfDenseBackends is not None, hash(Key.CUDA)
    Key.CPU == 49, Key.CPU == Key(49), Key.CPU != Key.CUDA, {Key.CPU: 1}[Key(49)], Key.CPU == None
    Key("CPU")
    Key.CPU < Key.CUDA
    pickle.loads(pickle.dumps(Key.CPU)), pickle.loads(pickle.dumps(Set(Key.CPU)))
    copy(Set(Key.CPU)), copy(Key.CUDA)
    [Set(key).raw_repr() for name, key in sorted(Key.__members__.items())]
    [str(Set(key).highestPriorityTypeId()) for name, key in sorted(Key.__members__.items())]
    Set(Key.CPU) | Set(Key.SparseCUDA), Set(Key.Dense), (Set(Key.CPU) | Set(Key.Python)).raw_repr()
    Set(Key.CPU).add(Key.Python).add(Key.AutogradCPU).remove(Key.CPU)
    Set(Key.AutogradCPU).add(Key.CUDA) - Set(Key.AutogradCPU), Set(Key.CPU) & Set(Key.CUDA)
    [Set(Key.CPU).has(key) for name, key in sorted(Key.__members__.items())]
    Set.from_raw_repr(0), Set.from_raw_repr(3), Set.from_raw_repr((1 << 40) | 1)
    Set.from_raw_repr((1 << 62) - 1)
    Set(Key.CPU) == Set(Key.CPU), Set(Key.CPU) != Set(Key.CUDA)
    Set()
    Set(1)
    Set.from_raw_repr(-1)
    hash(Set(Key.CPU))
    len(Set(Key.CPU))
    Set(Key.CPU) | Key.CUDA
    Set(Key.CPU) == 1
    """

_COMMENTS = """
    # type: (int, Tensor) -> Tensor
    # type: (List[int], Optional[Tensor]) -> Tuple[int, str]
    # type: (torch.Tensor, a.b.C) -> Dict[str, List[int]]
    # type: () -> None
    # type: (int)
    # type: (int, int,) -> (int, str)  # more
    # type: (int) -> [int], str
    # type: (List[int, str][0])->a[b][c]
    # type: (None, True, False) -> 1.5
    # type: (..., -1, 'a') -> x[...]
    # type: (()) -> (a,)
    # type: ((a)) -> b
    # type:     (a[]) -> a[b,]
    # type: (int
    # type: int
    # type: (a) -> 
    # type: (a b) -> c
    # type: (a;) -> b
    # type: (a.1) -> b
    # something
    a = 1 # type: (int) -> int
    #type: (a) -> b
"""  # noqa: W291
FAMILIES["type_comments"] = """
    str(comment("# type: (int)\\n -> int")), str(comment("  # type: (a) -> b"))
    str(comment("# type: (a) -> b").range()), comment("# type: () -> b").dump()
    comment("")
    str(merge(decl("self x y"), comment("# type: (int, Tensor) -> Tensor"), True))
    str(merge(decl("x y"), comment("# type: (int, Tensor) -> Tensor"), False))
    str(merge(decl("x"), comment("# type: (int, Tensor) -> Tensor"), False))
    str(merge(comment("# type: (int) -> a"), comment("# type: (b)"), False))
    str(spot), repr(spot), spot.start, spot.end, spot.highlight()
    str(text.make_range(1, 0, 12)), str(text.make_range(2, 4, 4)), text.source
    str(L.SourceRangeFactory("  x\\n  y\\n", None, 0, 2).make_range(2, 0, 1))
    torch.ErrorReport(spot).what(), torch.ErrorReport.call_stack()
    calls(1), calls(2), calls(3)
    torch.ErrorReport.call_stack()
    """
FAMILIES["type_comments"] += "".join(
    f"    str(comment({line[4:]!r}))\n" for line in _COMMENTS.splitlines()[1:]
)

FAMILIES["contexts"] = """
    storages.add_storage("a", w), [storages.has_storage(name) for name in "ab"]
    kept(torch.float32), kept(torch.int16), storages.get_storage("a", torch.int8)
    storages.add_storage("a", w)
    storages.get_storage("b", torch.float32)
    storages.add_storage("c", 3)
    [sorted(k for k, v in view(torch.BufferDict).items())]
    [sorted(k for k, v in view(torch.ParameterDict).items())]
    [sorted(k for k, v in view(torch.ModuleDict).items())]
    [[view(getattr(torch, kind + "Dict")).contains(n) for n in "n weight running_mean x 0".split()]
    view(torch.BufferDict).getattr("running_mean"), view(torch.ModuleDict).getattr("weight")
    view(torch.BufferDict).getattr("zz")
    view(torch.BufferDict).setattr("zz", w)
    view(torch.BufferDict).setattr("running_mean", 3)
    replaced("running_mean", one[0]), replaced("weight", one[0] * 2)
    list(view(torch.ModuleDict))
    torch.ModuleDict(3)
    comment(3)
    merge(1, 2, True)
    torch.ErrorReport("x")
    torch.sym_fresh_size(3), torch.sym_fresh_size(2.5), torch.sym_fresh_size(True)
    """
FAMILIES["contexts"] = FAMILIES["contexts"].replace(
    'x 0".split()]\n', 'x 0".split()] for kind in ("Buffer", "Parameter", "Module")]\n'
)

FAMILIES["outputs"] = """
    torch.gather(w, 0, ij, out=like(2, 2)), torch.gather(w, 0, ij, out=like(0))
    torch.gather(w, 0, ij, out=like(2, 2, kind=torch.float64))
    torch.gather(w, 0, ij, out=like(2, 2, kind=torch.int64))
    torch.gather(w, 0, ij, out=like(2, 2, kind=torch.float16))
    torch.gather(square, 0, square.long() * 0, out=square)
    torch.aminmax(w, out=(like(), like()))
    torch.aminmax(w, out=(like(kind=torch.float64), like(kind=torch.float64)))
    torch.aminmax(w, dim=0, out=(like(3), like(3, kind=torch.int64)))
    torch.aminmax(w, dim=0, out=(like(3, kind=torch.int64), like(3)))
    torch.aminmax(w, dim=0, out=(like(3),))
    torch.aminmax(w, dim=0, out=like(3))
    torch.multinomial(w[0] + 1, 2, out=like(2, kind=torch.int64)).shape
    torch.multinomial(w[0], 2, out=like(2))
    torch.multinomial(w[0], 2, out=like(2, kind=torch.int32))
    torch.max(w, 0, out=(like(3), like(3)))
    torch.max(w, 0, out=(like(3, kind=torch.float64), like(3, kind=torch.int64)))
    torch.sort(w, out=(like(4, 3), like(4, 3)))
    torch.mm(square, square, out=like(3, 3, kind=torch.int64))
    torch.mm(square.long(), square)
    torch.bmm(square[None], square[None], out=like(1, 3, 3, kind=torch.complex64))
    torch.matmul(w[0], w[1], out=like(kind=torch.bfloat16))
    torch.floor(w, out=like(4, 3, kind=torch.float64))
    torch.exp(w[:1], out=like(1, 3, kind=torch.float64))
    torch.exp(w, out=like(4, 3, kind=torch.int64))
    torch.index_select(w, 0, i[:2], out=like(2, 3, kind=torch.float64))
    torch.linalg.inv(square, out=like(3, 3, kind=torch.float64))
    torch.nonzero(w, out=like(11, 2))
    torch.cat([w, w], out=like(8, 3)), torch.cat([w, w.long()], out=like(0)).shape
    torch.cat([w, w], out=like(0, kind=torch.int64))
    torch.stack([w.long(), w.long()], out=like(0, kind=torch.bool))
    torch.cat([w, w], out=like(8, 3, kind=torch.float64)).dtype
    joined(torch.cat, 0, 4, 4, 8, 2, 8)
    joined(torch.cat, 0, 4, 4, 8, 8, 8), joined(torch.stack, 0, 4, 4, 8, 8, 8).shape
    joined(torch.cat, 0, 0, 4, 8, 4, 4)
    joined(torch.cat, 0, 0, 4, 8, 0, 4)
    joined(torch.hstack, 0, 4, 4, 8, 7, 8)
    torch.cat([w[:1], w[1:2]], out=w[:2])
    (lambda empty: torch.cat([empty, w], out=empty))(torch.empty(0))
    torch.cat(tensors=[w[:1], w[1:2]], out=w[:2])
    torch.stack([w[0], w[1]], out=w[:2])
    torch.vstack([w[0], w[1]], out=w[:2])
    """

FAMILIES["in_place_shapes"] = """
    w[0].broadcast_to(2, 2, 3), w[0].broadcast_to((2, 3)), w[0].broadcast_to([1, 3])
    w[0].broadcast_to(size=(2, 3)), w[0].broadcast_to(2, -1), w[0, 0].broadcast_to(())
    w[0].broadcast_to(2, 2)
    w[0].broadcast_to()
    torch.broadcast_to(w[0], 2, 3)
    torch.broadcast_to(w[0], size=(2, 3)), torch.broadcast_to(w[0], (2, 3))
    [w[0, :n].clone().addbmm_(y, y.transpose(1, 2)) for n in (1, 3)], w[0, 0].addbmm_(y[:, :1], yt)
    w[:1].clone().addbmm_(y, yt, beta=0.5, alpha=2), w[:1].clone().addbmm_(y[:0], yt[:0])
    wide(lambda v: v.addbmm_(y, yt)), wide(lambda v: v.addbmm_(y.clone().requires_grad_(), yt))
    w.clone().addbmm_(y, yt)
    w[:1].expand(3, 3).addbmm_(y, yt)
    w[:1].expand(2, 3).addbmm_(y, yt)
    w[:3].clone().addbmm_(y, yt[:1])
    w[:3].clone().addbmm_(y, y)
    w[:1].clone().addmm_(w[:3], square)
    w[0, :1].clone().addmv_(w, w[0])
    w[:1, None].clone().baddbmm_(y, yt)
    """

FAMILIES["ctc_by_number"] = """
    [torch.ctc_loss(lp, ij + 1, [5, 4], [2, 1], 0, reduction) for reduction in (0, 1, 2)]
    torch.ctc_loss(lp, ij + 1, i[2:4] + 2, i[1:3], 0, 0), torch.ctc_loss(lp, ij + 1, [5, 4], [2, 1])
    torch.ctc_loss(lp, ij + 1, [5, 4], [2, 1], zero_infinity=True)
    torch.ctc_loss(lp, ij + 1, [5, 4], [2, 1], 0, 3)
    torch.ctc_loss(lp, ij + 1, [1, 1], [2, 1], 0, 1, True)
    F.ctc_loss(lp, ij + 1, [5, 4], [2, 1]), F.ctc_loss(lp, ij + 1, [5, 4], [2, 1], 0, "sum")
    """

ERRORS_BY_TYPE = ("packed_linear", "dispatch_keys", "contexts")


def names(torch, w, x, y):
    """What the expressions see besides the others' names."""
    import importlib
    import pickle
    from copy import deepcopy

    real = torch.__name__ == "torch"
    L = torch._C._jit_tree_views if real else importlib.import_module("tritorch.jit._tree_views")
    text = L.SourceRangeFactory("x = 1\ny = foo(2)\nz=3\n", "file.py", 10, 0)
    spot = text.make_range(2, 4, 7)

    def int8(weight):
        q, offsets, scale, zero = torch.fbgemm_linear_quantize_weight(weight)
        return q, torch.fbgemm_pack_quantized_matrix(q), offsets, scale, zero

    def cell(mode, gates, columns=slice(None)):
        rows = gates * 4
        both = int8(y.reshape(8, 3).repeat(2, 1)[:rows]), int8(x.t().repeat(6, 1)[:rows])
        bias = y.reshape(-1).repeat(2)[:rows]
        h = w.t() / 10
        hx = (h, h + 1) if mode == "lstm" else h
        (a, pa, oa, sa, za), (b, pb, ob, sb, zb) = both
        step = getattr(torch, f"quantized_{mode}_cell")
        parts = (pa, pb, oa, ob, sa, sb, za, zb)
        return step(y[0, :3, :3][:, columns], hx, a, b, bias, bias / 2, *parts)

    weights = [v.repeat(6, 1)[:16].contiguous() / 2 for v in (x, y[0])]
    weights += [v[:, 0].contiguous() for v in weights]
    h = y[:, None, :2, :].contiguous()

    def layer(reverse, *hx):
        hx = hx or (h[0], h[1])
        return torch.mkldnn_rnn_layer(
            y[:, :2, :3].contiguous(), *weights, *hx, reverse, [], 2, 4, 1, True, False,
            False, False,
        )  # fmt: skip

    def decl(words):
        kind = L.Var(L.Ident(spot, "Any"))
        return L.Decl(spot, [L.Param(kind, L.Ident(spot, n), False) for n in words.split()], kind)

    def calls(n):
        frames = [torch.CallStack(f"f{i}", text.make_range(i + 1, 0, 1)) for i in range(n)]
        shown = torch.ErrorReport(spot).what(), torch.ErrorReport.call_stack()
        return (*shown, len(frames))

    def joined(function, *places):
        values = torch.arange(16.0)
        *ends, start, size = places
        parts = [values[a:b] for a, b in zip(ends[::2], ends[1::2])]
        return function(parts, out=values[start : start + size])

    def wide(change):
        leaf = torch.arange(3.0).requires_grad_()
        v = leaf * 1
        change(v)
        v.sum().backward()
        return v.shape, leaf.grad

    storages = torch.DeserializationStorageContext()
    storages.add_storage("kept", torch.arange(6.0)[2:])

    def kept(kind):
        out = storages.get_storage("kept", kind)
        again = torch.empty(0).set_(out.untyped_storage().clone(), 2, (2,), (1,))
        return out, again, len(out.untyped_storage())

    def view(kind):
        module = torch.nn.BatchNorm1d(3)
        module.n = torch.nn.ReLU()
        return kind(torch.jit.script(module)._c if real else module)

    def replaced(name, value):
        seen = view(torch.ParameterDict)
        seen.setattr(name, value)
        return seen.getattr(name).tolist()

    return {
        "int8": int8, "fp16": torch.fbgemm_pack_gemm_matrix_fp16, "cell": cell, "layer": layer,
        "h": h, "copy": deepcopy,
        "Key": torch.DispatchKey, "Set": torch.DispatchKeySet, "pickle": pickle, "L": L,
        "text": text, "spot": spot, "comment": torch.parse_type_comment, "decl": decl,
        "merge": torch.merge_type_from_type_comment, "calls": calls, "storages": storages,
        "ij": torch.tensor([[0, 1], [2, 0]]), "square": w[:3] / 5 + torch.eye(3), "yt": y.mT,
        "like": lambda *shape, kind=torch.float32: torch.zeros(shape, dtype=kind),
        "joined": joined, "wide": wide,
        "lp": w.reshape(-1)[:4].log_softmax(0).expand(5, 2, 4),
        "kept": kept, "view": view, "replaced": replaced,
    }  # fmt: skip
