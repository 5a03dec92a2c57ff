"""What both tritorch and the real torch are asked about schemas, types and FileCheck."""

ARGUMENTS = """
Generator? g; ScalarType d; Layout l; MemoryFormat m; QScheme q; Stream s; Device? d=None; t[] y
Dict(str, int) d; Dict(str, Tensor)? d; Future(t) f; RRef(int) f; Await(int) f; (int, (str, t)) x
() t; (int) t; SymInt[] s; SymInt? s; SymBool b; SymInt[1] x=1; Scalar[2] x; int[3] x; Any[] x
Tensor(a)[] x; Tensor(a!)? x; Tensor(a -> *) x; Tensor(a! -> b) x; Tensor[](a!) x; Tensor!x
Tensor(*) x; Tensor(* -> *) x; Tensor(a)[](b) t; Tensor(a!)[] o; Tensor?[] x; Tensor[]?[] x
int[][] x; Union(int, str) u; NoneType n; number n; foo x; AnyEnumType e; Capsule c; complex x
float x=1e-05; float x=1; float x=-0.5; float x=1e10; float x=1e16; float x=3.14159265358979
int x=-1; int x=9223372036854775807; int x=1.5; bool x=True; bool[2] x=[True, False]; int[2] s=1
int[1] s=1; int[2] s=[1, 2]; float[2] x=[1.0, 2]; Scalar x=1; Scalar x=1.5; Scalar x=True
int[] x=[]
ScalarType d=long; ScalarType d=float; Layout l=strided; int r=Mean
MemoryFormat m=contiguous_format
str x="a\\"b"; str x='abc'; str? x=None; float? x=0; Device d='cpu'; int x=[1]; int[] x=[1,; real
Tensor x=1; str x='abc; Union[int, str] u; int[2][] x; int if; int x # comment
"""
SCHEMAS = """
a() -> (); a::b.c(int x) -> int y; a::b(int x) -> (int); a::b(int x) -> (int y, int z)
a::b(...) -> ...; a::b(int x, ...) -> (int y, ...); a::b(int x, *, int y=1) -> int[]; a::b
a::b(int x; a::b(int x) -> ; a::b(int x) -> int foo bar; a::b.1(int x) -> (); a::b(*, ) -> ()
a::b(*) -> (); a::b(Tensor self, *, Tensor(a!) out) -> Tensor(a!); a::b(Tensor(a) x) -> Tensor(a)
a::b(int x) -> ((int, int)); a.b.c(int x) -> (); a::b.default(int x) -> (); ::b(int x) -> ()
a::b::c(int x) -> (); a::b (int x)->int; a::b($) -> (); a::b(int x, *, int y, *) -> ()
a::b(Tensor x, int from, int? to) -> (); a::b(int x, int x) -> ()
"""
COMPATIBLE = """
a::b(int x) -> int; a::b(int x, int y=1) -> int; a::b(int x, int y) -> int; a::b(int? x) -> int
a::c(int x) -> int; a::b.x(int x) -> int; a::b(int x) -> int?; a::b(int y) -> int
a::b(int x, *, int y=1, int z=2) -> int; a::b(int x, *, int z=2) -> int; a::b(int x, int z=2) -> int
a::b(int x=1) -> int; a::b(int x=2) -> int; a::b(Tensor(a!) x) -> int; a::b(int x) -> (int, int)
a::b(int x, *, Tensor(a!) out) -> int; a::b(int x, int y=1, *, Tensor(a!) out) -> int
a::b(...) -> int; a::b(int x, int[] y=[1]) -> int; a::b(int x, Tensor? y=None) -> int
"""


def split(text):
    """The entries of a list above."""
    return [entry for line in text.strip().split("\n") for entry in line.split("; ")]


def describe(schema):
    """All that a FunctionSchema says."""
    return {
        "text": str(schema),
        "names": [schema.name, schema.overload_name],
        "flags": [schema.is_mutable, schema._is_view_op()],
        "arguments": [describe_argument(a) for a in [*schema.arguments, *schema.returns]],
    }


def describe_argument(a):
    """All that an Argument says."""
    alias = a.alias_info
    return [
        a.name,
        *(repr(a.type), a.type.kind(), a.type.str()),
        *(repr(a.real_type), a.real_type.kind(), a.real_type.str()),
        *(a.N, repr(a.default_value).replace("tritorch", "torch"), a.has_default_value()),
        *(a.is_write, a.is_out, a.kwarg_only),
        alias and [alias.is_write, sorted(alias.before_set), sorted(alias.after_set)],
    ]


def ask(parse, text):
    """What parse_schema makes of a text."""
    try:
        return describe(parse(text))
    except RuntimeError as error:
        message = str(error)
        return "error: " + message.partition("please report a bug to PyTorch. ")[2] or message


def types(torch):
    """One type of each sort."""
    names = (
        "Any Bool Int Float Number Complex String None DeviceObj StreamObj Tensor SymInt SymBool"
    )
    plain = {name: getattr(torch, f"{name}Type").get() for name in names.split()}
    i, f, s, none, t, number = (
        plain[name] for name in ("Int", "Float", "String", "None", "Tensor", "Number")
    )
    listed, optional, union = torch.ListType, torch.OptionalType, torch.UnionType
    return [
        *plain.values(),
        *(listed(i), listed(t), listed(plain["Any"]), listed(optional(i)), optional(listed(i))),
        *(optional(i), optional(optional(i)), optional(t), optional(number), optional.ofTensor()),
        *(torch.TupleType([i, t]), torch.TupleType([number, t]), torch.TupleType([])),
        *(torch.DictType(s, i), torch.DictType(s, plain["Any"]), torch.EnumType("E", i, [])),
        *(
            union([i, s]),
            union([s, i, none]),
            union([i, f]),
            union([i, none]),
            union([s, union([i, t])]),
        ),
        *(
            torch.FutureType(i),
            torch.FutureType(plain["Any"]),
            torch.AwaitType(i),
            torch.RRefType(i),
        ),
        *(t.with_sizes([2, None]), t.with_dtype(torch.float16), t.with_device(torch.device("cpu"))),
        torch.TensorType.create_from_tensor(torch.ones(3, 2, dtype=torch.int64).t()),
        torch.TensorType.create_from_tensor(torch.tensor(1.0, requires_grad=True)),
    ]


def describe_types(torch):
    """What the types say of themselves and of each other."""
    found = types(torch)
    return {
        "texts": [[repr(t), t.str(), t.kind(), repr(t.containedTypes())] for t in found],
        "subtypes": ["".join(".1"[a.isSubtypeOf(b)] for b in found) for a in found],
        "unified": [[unified(torch, a, b) for b in found[:24]] for a in found[:24]],
    }


def unified(torch, a, b):
    """The type that unify_type_list gives for two."""
    try:
        return torch.unify_type_list([a, b]).str()
    except RuntimeError:
        return None


TEXT = "alpha one\nbeta two\nbeta three\ngamma four five\n"
CHECKS = [
    [("check", "alpha"), ("check", "gamma")],
    [("check", "gamma"), ("check", "alpha")],
    [("check", "zeta")],
    [("check", "alpha"), ("check_next", "beta")],
    [("check", "alpha"), ("check_next", "gamma")],
    [("check_next", "alpha")],
    [("check", "alpha"), ("check_next", "beta"), ("check_next", "beta"), ("check_same", "three")],
    [("check", "alpha"), ("check_same", "one")],
    [("check", "alpha"), ("check_same", "two")],
    [("check", "alpha"), ("check_not", "zeta"), ("check", "gamma")],
    [("check", "alpha"), ("check_not", "beta"), ("check", "gamma")],
    [("check", "beta"), ("check_not", "gamma")],
    [("check_not", "zeta")],
    [("check_count", "beta", 2)],
    [("check_count", "beta", 3)],
    [("check_count", "beta", 1, True)],
    [("check_count", "beta", 2, True)],
    [("check_count", "zeta", 0, True)],
    [("check_count", "beta", 1), ("check", "beta three")],
    [("check_dag", "gamma"), ("check_dag", "alpha")],
    [("check_dag", "gamma"), ("check_dag", "zeta")],
    [("check_dag", "beta"), ("check_dag", "alpha"), ("check", "one")],
    [("check_dag", "gamma"), ("check_not", "beta"), ("check_dag", "alpha")],
    [("check_dag", "alpha"), ("check_not", "beta"), ("check_dag", "gamma")],
    [("check_dag", "beta"), ("check_dag", "beta"), ("check_dag", "beta")],
    [("check_regex", r"t[wh]o\nbeta")],
    [("check_regex", "z+")],
    [("check_not", "x"), ("check_not", "five")],
    [("check", "alpha one\n"), ("check_same", "beta")],
    [("check", "")],
]


def outcome(torch, checks):
    """What a FileCheck says of TEXT: None, or its message's first and last line."""
    check = torch.FileCheck()
    for name, *arguments in checks:
        getattr(check, name)(*arguments)
    try:
        return check.run(TEXT)
    except RuntimeError as error:
        lines = str(error).strip().split("\n")
        return [lines[0], lines[-1]]
