"""Types and what they say: dtypes, devices, sizes, limits, defaults, factories, symbols."""

from .lines import each, lines

FAMILIES = {}

_MADE = "dtype layout memory_format qscheme device Size finfo iinfo Generator"
FAMILIES["types_made"] = (
    each("torch.@()", _MADE)
    + each("torch.@(1, 2, 3)", _MADE)
    + each("torch.@(nonsense=1)", _MADE)
    + each("torch.@.nonsense", _MADE)
    + each("torch.@.__name__, torch.@.__qualname__, torch.@.__base__", _MADE)
    + each("type('Mine', (torch.@,), {}).__name__", _MADE)
    + each("@.nonsense", """torch.float32 torch.strided torch.contiguous_format torch.device("cpu")
        torch.Size([1]) torch.finfo(torch.float32) torch.iinfo(torch.int8) torch.per_tensor_affine
        torch.default_generator v v.untyped_storage()""")
    + each("@.nonsense = 1", """torch.float32 torch.strided torch.contiguous_format torch.device("cpu")
        torch.Size([1]) torch.finfo(torch.float32) torch.iinfo(torch.int8)""")
    + each("torch.device(@)", ["''", "None", "0", "-1", "1000", "True", "b'cpu'", "'cpu', 'a'",
        "'cpu:0', 0", "'', 0", "None, 0", "[]", "v", "'CPU'", "' cpu'", "'cpu:'", "'cpu:0:1'", "'cpu:x'",
        "type='cpu'", "index=0", "device='cpu'", "type='cpu', index='a'", "'cuda', None", "'cpu', 1.5",
        "np.int64(0)", "torch.device('cpu'), 1"])
    + lines("""
    torch.float32 < torch.float64
    torch.device("cpu") < torch.device("cpu")
    torch.float32 == "torch.float32", torch.device("cpu") == "cpu"
    hash(torch.float32) == hash(torch.float32), {torch.float32: 1}[torch.float]
    torch.float32.is_floating_point, torch.float32.is_complex, torch.int8.is_signed, torch.uint8.is_signed
    torch.float32.itemsize, torch.bool.itemsize, torch.complex128.itemsize, torch.float8_e5m2.itemsize
    torch.float32.abbr if hasattr(torch.float32, "abbr") else None
    torch.strided == torch.strided, torch.sparse_coo is torch.sparse_coo, repr(torch.sparse_csr)
    pickle.loads(pickle.dumps(torch.strided)) is torch.strided
    pickle.loads(pickle.dumps(torch.contiguous_format)) is torch.contiguous_format
    pickle.loads(pickle.dumps(torch.per_tensor_affine)) is torch.per_tensor_affine
    torch.channels_last, torch.channels_last_3d, torch.preserve_format, torch.per_channel_symmetric
    torch.float32.__reduce__(), torch.strided.__reduce__(), torch.preserve_format.__reduce__()
    """)
)  # fmt: skip

_F = "torch.finfo(torch.float32)"
FAMILIES["limits"] = (
    each("hash(@) is not None", f"{_F} torch.iinfo(torch.int8)")
    + each("pickle.loads(pickle.dumps(@))", f"{_F} torch.iinfo(torch.int8)")
    + each("copy.copy(@), copy.deepcopy(@)", f"{_F} torch.iinfo(torch.int8)")
    + each("torch.finfo(@)", "torch.int32 3 None 'float32' float int torch.complex64 torch.float8_e4m3fn")
    + each("torch.iinfo(@)", "torch.float32 3 None 'int8' float int torch.bool torch.uint16 torch.complex64")
    + each("torch.finfo(torch.@)", "float16 bfloat16 float64 complex128 float8_e5m2 float8_e4m3fnuz")
    + each("torch.finfo(torch.@).smallest_normal, torch.finfo(torch.@).tiny, torch.finfo(torch.@).resolution",
           "float16 bfloat16 float64 complex64")
    + each("torch.iinfo(torch.@)", "uint8 int16 int64 uint32")
    + lines("""
    torch.finfo(torch.float32) == torch.finfo(torch.float32), torch.finfo(torch.float32) != torch.finfo(torch.float64)
    torch.finfo(torch.float32) == torch.iinfo(torch.int8), torch.finfo(torch.float32) == 3
    torch.finfo(torch.float32) < torch.finfo(torch.float64)
    torch.finfo(torch.float32).dtype, torch.iinfo(torch.int8).dtype, torch.iinfo(torch.int8).bits
    torch.finfo().dtype, torch.finfo(type=torch.float64).dtype
    torch.iinfo(type=torch.int8).max
    torch.finfo(torch.float32).max = 3
    torch.finfo.__module__, torch.iinfo.__module__, torch.finfo, torch.iinfo
    len({torch.finfo(torch.float32), torch.finfo(torch.float32)})
    """)
)  # fmt: skip

FAMILIES["sizes"] = each(
    "torch.Size(@)",
    ["[1, 'a']", "['a']", "[1.5]", "3", "None", "[1, None]", "v", "i", "(True, 2)", "[v]", "[-1]", "'12'",
     "[torch.tensor(3)]", "[1, torch.tensor(2.5)]", "[2**63]", "range(3)", "{1: 2}", "[1], 2", "data=[1]",
     "[np.int32(2)]", "iter([1, 2])", "[[1]]", "[1j]"],
) + each(
    "torch.Size([1, 2]) @",
    ["+ [3]", "+ (3,)", "+ torch.Size([3])", "+ 3", "+ 'a'", "+ None", "* 2", "* 'a'", "== (1, 2)",
     "== [1, 2]", "< (2,)", "+ ('a',)", "+ (1.5,)", "- 1", "* 1.5", "+ range(2)"],
) + each(
    "@ torch.Size([1, 2])", ["[3] +", "(3,) +", "3 +", "2 *", "None +", "'a' +", "('a',) +"]
) + lines("""
    s = torch.Size([2, 3]); s.numel(), s.index(3), s.count(2), s[0], s[-1], s[:1], s[::-1]
    torch.Size([2, 3])[5]
    torch.Size([2, 3])["a"]
    torch.Size([2, 3]).index(9)
    torch.Size([]).numel(), torch.Size(), repr(torch.Size([1])), str(torch.Size([]))
    torch.Size([2, 3]).numel(1)
    torch.Size.numel([1, 2])
    torch.Size([2]).__reduce__()
    torch.Size([2])[0] = 1
    hash(torch.Size([1, 2])) == hash((1, 2)), isinstance(torch.Size([1]), tuple)
    type(torch.Size([1, 2]) + (1,)), type((1,) + torch.Size([1, 2])), type(torch.Size([1]) * 2), type(2 * torch.Size([1]))
    type(torch.Size([1, 2])[:1]), type(torch.Size([1, 2])[0])
    "{}".format(torch.Size([1])), f"{torch.Size([1, 2])}"
    copy.copy(torch.Size([1])), copy.deepcopy(torch.Size([1])), type(copy.copy(torch.Size([1])))
    a, c = torch.Size([4, 5]); a, c, sorted(torch.Size([3, 1])), max(torch.Size([3, 1])), 3 in torch.Size([3])
    """)  # fmt: skip

_HALF = "torch.tensor(1j).dtype, torch.tensor(1.0).dtype, torch.zeros(1).dtype"
FAMILIES["defaults_of_types"] = (
    each(f"torch.set_default_dtype(torch.@); {_HALF}", "float16 float64 float32")
    + each("torch.set_default_dtype(torch.@); torch.get_default_dtype()", "bfloat16 float16")
    + each("torch.set_default_dtype(torch.bfloat16); @", """torch.tensor(1j) torch.complex(v,v).dtype
        torch.tensor([1.0,2j]) torch.arange(2.0).dtype torch.full((1,),1j)""")
    + each("torch.set_default_dtype(torch.float16); @", """torch.tensor(1j) torch.arange(2.0).dtype
        torch.full((1,),1j).dtype torch.tensor([1,2j]).dtype torch.as_tensor(2j).dtype torch.Tensor([1])""")
    + each("torch.set_default_dtype(@)", "None 'a' 3 v torch.bool torch.int8 torch.complex128 float torch.strided")
    + each("torch.set_default_tensor_type(@)", """torch.sparse.FloatTensor "torch.sparse.FloatTensor"
        torch.cuda.DoubleTensor torch.cuda.sparse.FloatTensor None 3 torch.float32 torch.BoolTensor
        torch.ByteTensor "torch.IntTensor" "FloatTensor" "torch.Nonsense" torch.Tensor torch.sparse.DoubleTensor
        "torch.cuda.sparse.FloatTensor" v torch.device("cpu")""")
    + each("torch.set_default_tensor_type(torch.@); torch.get_default_dtype(), torch.zeros(1).type()",
           "DoubleTensor FloatTensor HalfTensor BFloat16Tensor")
    + each("torch.set_default_device(@); torch.zeros(1).device", """"meta" 'cpu:0' torch.device("meta") "" """)
    + each("torch.set_default_device(@)", "3 1.5 v [] 'a:b'")
    + lines("""
    torch.get_default_device(), torch.set_default_device("meta"), torch.get_default_device()
    """)
)  # fmt: skip

FAMILIES["factories"] = (
    each("torch.@(-1)", "zeros ones empty rand randn")
    + each("torch.@(2, -3)", "zeros ones empty rand randn")
    + each("torch.@('a')", "zeros ones empty rand randn eye arange randperm")
    + each("torch.@(1.5)", "zeros ones empty rand randn eye randperm")
    + each("torch.@()", "zeros empty full eye arange linspace randperm randint")
    + each("torch.@(None)", "zeros empty eye arange randperm")
    + each("torch.@(2, dtype=3)", "zeros empty eye arange")
    + each("torch.@(2, device='a')", "zeros empty arange")
    + each("torch.@(2, layout=3)", "zeros empty")
    + each("torch.@(2, layout=torch.sparse_coo)", "zeros empty ones")
    + each("torch.@(2, nonsense=1)", "zeros empty eye arange")
    + each("torch.@(2, requires_grad=True, dtype=torch.int32)", "zeros empty ones")
    + each("torch.@(2, out=torch.zeros(2), dtype=torch.float64)", "zeros ones empty arange rand randn")
    + each("torch.@(2, out=torch.zeros(2), device='meta')", "zeros ones empty")
    + each("torch.@(2, out=torch.zeros(2), dtype=torch.float32)", "zeros ones arange")
    + each("torch.empty(2, 3, memory_format=@).shape", """torch.preserve_format torch.channels_last 3
        torch.contiguous_format None torch.strided torch.channels_last_3d""")
    + each("x.@(memory_format=torch.channels_last)", "contiguous clone to")
    + each("torch.@(x, memory_format=torch.preserve_format).shape", "zeros_like empty_like clone")
    + lines("""
    torch.empty(2, out=torch.zeros(2), memory_format=torch.contiguous_format).shape
    torch.zeros(2, out=torch.zeros(2), layout=torch.sparse_coo)
    torch.zeros(2, out=3)
    torch.empty(2, memory_format=torch.preserve_format)
    torch.empty_strided((2,), (-1,))
    torch.empty_strided((2,), (1, 1))
    torch.empty_strided((-2,), (1,))
    torch.empty_permuted((2, 3), (0, 0))
    torch.empty_permuted((2, 3), (0,))
    torch.full((2,), "a")
    torch.full((-2,), 1)
    torch.full((2,), v)
    torch.full(2, 1)
    torch.eye(-1)
    torch.eye(2, -1)
    torch.arange(0, 5, 0)
    torch.arange(0, 5, -1)
    torch.arange(0, float("inf"))
    torch.linspace(0, 1, -1)
    torch.logspace(0, 1, -1)
    torch.randperm(-1)
    torch.randint(3, 3, (2,))
    torch.randint(0, (2,))
    torch.randint(0, 300, (2,), dtype=torch.uint8)
    torch.tensor()
    torch.tensor([[1], [1, 2]])
    torch.tensor([1, [2]])
    torch.tensor(object())
    torch.tensor([None])
    torch.tensor({})
    torch.tensor("a")
    torch.tensor(v)
    torch.tensor(v, requires_grad=True)
    torch.tensor([v])
    torch.tensor([v, v])
    torch.tensor(1, pin_memory=3)
    torch.as_tensor(None)
    torch.asarray([1, 2], copy=False)
    torch.asarray(v, dtype=torch.float64, copy=False)
    torch.asarray(3, device="a")
    torch.frombuffer(b"")
    torch.frombuffer(b"abc", dtype=torch.float32)
    torch.frombuffer(bytearray(b"abcd"), dtype=torch.int8, offset=4)
    torch.frombuffer(bytearray(b"abcd"), dtype=torch.int8, count=9)
    torch.from_numpy(3)
    torch.from_numpy(np.array(["a"]))
    torch.from_numpy(np.zeros(3)[::-1])
    torch.zeros(2, names=("a", "b"))
    torch.scalar_tensor("a")
    torch.zeros_like(3)
    torch.complex(v, i)
    torch.polar(v, i)
    """)
)  # fmt: skip

_NODE = (
    "from tests.surface.cases.protocol import N; "
    "S, D, B = torch.SymInt(N(5)), torch.SymFloat(N(2.5)), torch.SymBool(N(True)); "
)
FAMILIES["symbols"] = [
    _NODE + line
    for line in each("torch.@(S), type(torch.@(S))", "sym_float sym_int sym_sqrt")
    + each("torch.@(D), type(torch.@(D))", "sym_float sym_int")
    + each("torch.@(S, 7), type(torch.@(S, 7)), torch.@(2, S)", "sym_max sym_min")
    + each("S @ 3, type(S @ 3)", "+ - * // % / ** == != < <= > >=")
    + each("7 @ S, type(7 @ S)", "+ - * // % /")
    + each("D @ 2.0, type(D @ 2.0)", "+ - * / == <")
    + each("@", ["S", "D", "B", "str(S)", "repr(B)", "int(S)", "bool(B)", "float(D)", "hash(S)", "hash(B)",
                 "-S", "abs(S)", "+S", "S.node.x", "B & B", "B | True", "~B", "torch.sym_not(B)",
                 "torch.sym_ite(B, S, S + 1)", "torch.sym_sum([S, S, 1])", "isinstance(S, int)", "range(S)",
                 "S.is_integer()", "round(S)", "[1] * S", "S.__index__()", "torch.zeros(S).shape",
                 "torch.sym_max(S, 1.5)", "torch.sym_not(S)", "torch.sym_ite(S, 1, 2)", "B == True", "S and 1",
                 "S.nonsense", "round(D)", "D.is_integer()", "S.__sym_float__()", "D.__int__()", "B.__sym_not__()",
                 "S.as_integer_ratio()", "D.hex()", "S.conjugate()", "torch.sym_float(B)", "int(B)", "S << 1",
                 "[torch.SymInt.__module__, torch.SymBool.__qualname__, torch.SymFloat.__bases__]"])
]  # fmt: skip
FAMILIES["symbols"] += lines("""
    torch.SymInt()
    torch.SymInt(3)
    torch.SymBool(1, 2)
    torch.SymFloat(node=3).node
    torch.sym_not(3)
    torch.sym_not(v)
    torch.sym_ite(1, 2, 3)
    torch.sym_ite(True, 1, 2.0)
    torch.sym_max(1, 2.0), type(torch.sym_max(3, 2.0)), torch.sym_min(1, 2.0)
    torch.sym_max("a", "b")
    torch.sym_int("a")
    torch.sym_int(v)
    torch.sym_float(v)
    torch.sym_sum([]), torch.sym_sum((1, 2.5))
    torch.sym_sum(3)
    """)
