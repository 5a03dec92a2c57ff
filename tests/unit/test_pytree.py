"""torch.utils._pytree: what is taken apart, specs, key paths, registering, serialized specs."""

import collections
import dataclasses
import enum
import pickle
import subprocess
import sys
import typing

import pytest

import tritorch as torch
from tritorch.utils import _pytree as pytree

Point = collections.namedtuple("Point", "x y")
TREES = [
    1,
    None,
    [],
    ((), {}),
    [1, (2, "three", [None])],
    {"b": 1, "a": {"c": (2.5, 3)}},
    Point(1, [2, 3]),
    collections.OrderedDict(b=1, a=[2]),
    collections.defaultdict(list, {"a": [1, 2], "b": {}}),
    collections.deque([1, (2,)], maxlen=5),
    torch.Size([2, 3]),
    torch.Size,
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_is_put_together_again(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert pytree.tree_unflatten(spec, leaves) == tree
    assert len(leaves) == spec.num_leaves
    assert leaves == pytree.tree_leaves(tree) == list(pytree.tree_iter(tree))
    assert leaves == [leaf for _, leaf in pytree.tree_leaves_with_path(tree)]
    mapped = pytree.tree_map(lambda x: x, tree)
    assert mapped == tree and type(mapped) is type(tree)
    for same in (pickle.loads(pickle.dumps(spec)), pytree.tree_structure(mapped)):
        assert same == spec and hash(same) == hash(spec)


def test_specs_print_as_in_pytorch():
    spec = pytree.tree_structure((0, [0, 0, [0]], {"a": 1}))
    assert repr(spec) == (
        "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *,\n    "
        "TreeSpec(list, None, [*])]),\n  TreeSpec(dict, ['a'], [*])])"
    )
    assert pytree.treespec_pprint(spec) == "(*, [*, *, [*]], {'a': *})"
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (9, 5, 3)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'type'"):
        spec.type = list


def test_plain_containers_are_nodes_and_subclasses_leaves():
    class Config(dict):
        pass

    tree = [Config(a=1), {1, 2}, torch.ones(2)]
    assert all(a is b for a, b in zip(pytree.tree_leaves(tree), tree))
    result = torch.ones(2, 3).max(dim=0)
    assert type(pytree.tree_map(lambda x: x + 1, result)) is type(result)


def test_maps():
    tree = {"x": 7, "y": (42, None)}
    assert pytree.tree_map(lambda x: (x,), tree) == {"x": (7,), "y": ((42,), (None,))}
    assert pytree.tree_map(lambda x, y: [x, *y], [5, 6], [[7, 9], [1]]) == [[5, 7, 9], [6, 1]]
    add = lambda x: x + 1
    for only in (int, (int, str), int | str, lambda x: x is not None):
        assert pytree.tree_map_only(only, add, tree) == {"x": 8, "y": (43, None)}
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, add, tree)
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [7, 42, None]
    is_pair = lambda x: isinstance(x, tuple)
    assert pytree.tree_map(lambda x: x, tree, is_leaf=is_pair) == tree
    assert pytree.tree_leaves(tree, is_leaf=is_pair) == [7, (42, None)]
    assert pytree.tree_any(lambda x: x is None, tree) and not pytree.tree_all(bool, tree)
    assert pytree.tree_all_only(int, bool, tree) and pytree.tree_any_only(int, bool, tree)


def test_a_function_may_change_the_tree_that_it_is_called_for():
    tree = {"a": 1, "b": [1, 2]}
    assert pytree.tree_map(lambda x: tree.setdefault(f"new{x}", x), tree) == {"a": 1, "b": [1, 2]}


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
        ([1], (1,), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
    ],
)
def test_what_does_not_fit_is_named(tree, other, message):
    with pytest.raises(ValueError) as error:
        pytree.tree_map(lambda x, y: x, tree, other)
    assert str(error.value) == message


def test_broadcasting_follows_the_order_of_the_tree():
    spec = pytree.tree_structure({"a": 0, "b": (0, 0)})
    assert pytree._broadcast_to_and_flatten({"b": 1, "a": 2}, spec) == [2, 1, 1]
    assert pytree._broadcast_to_and_flatten(7, spec) == [7, 7, 7]
    assert pytree._broadcast_to_and_flatten({"a": 1}, spec) is None


def test_key_paths():
    tree = (["hello", {"foo": [3], "bar": Point("baz", 10)}],)
    flat, _ = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(path) for path, _ in flat] == [
        "[0][0]", "[0][1]['foo'][0]", "[0][1]['bar'].x", "[0][1]['bar'].y",
    ]  # fmt: skip
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in flat)
    first = flat[1][0]
    assert first[1:3] == (pytree.SequenceKey(1), pytree.MappingKey("foo"))


@pytest.fixture
def registered():
    """A dataclass that is registered while a test runs."""

    @dataclasses.dataclass
    class Data:
        a: typing.Any
        b: str = "moo"
        c: str | None = None
        d: str = dataclasses.field(init=False, default="")

    pytree.register_dataclass(Data, serialized_type_name="tests.Data")
    yield Data
    pytree._deregister_pytree_node(Data)


def test_dataclasses(registered):
    data = registered([1, 2], c=None)
    leaves, spec = pytree.tree_flatten(data)
    assert leaves == [1, 2, "moo"] and spec.context == [["a", "b"], ["c"]]
    assert pytree.tree_unflatten([3, 4, "b"], spec) == registered([3, 4], "b")
    assert [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(data)] == [
        ".a[0]", ".a[1]", ".b",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(registered, None, None)
    with pytest.raises(ValueError, match="Missing fields"):
        pytree.register_dataclass(registered, field_names=["a", "b"])


def test_registered_types_go_through_transforms(registered):
    x = torch.arange(3.0)
    out = torch.vmap(lambda data: registered(data.a * 2, data.a + 1))(registered(x, x))
    assert type(out) is registered and torch.equal(out.a, x * 2) and torch.equal(out.b, x + 1)
    found = torch.func.grad(lambda data: (data.a * data.b).sum())(registered(x, x + 1))
    assert torch.equal(found.a, x + 1) and torch.equal(found.b, x)


def test_constants():
    @dataclasses.dataclass(frozen=True)
    class Config:
        norm: str

    pytree.register_constant(Config)
    try:
        leaves, spec = pytree.tree_flatten(Config("l1"))
        assert leaves == [] and pytree._retrieve_constant(spec) == Config("l1")
        assert spec != pytree.tree_structure(Config("l2"))
    finally:
        pytree._deregister_pytree_node(Config)
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(type("Plain", (), {}))


class Color(enum.Enum):
    RED = 1


def test_serialized_specs_are_those_of_pytorch():
    spec = pytree.tree_structure(collections.OrderedDict([(1, (0, 1)), (2, {4: 3})]))
    leaf = '{"type": null, "context": null, "children_spec": []}'
    written = (
        '[1, {"type": "collections.OrderedDict", "context": "[1, 2]", "children_spec": ['
        '{"type": "builtins.tuple", "context": "null", "children_spec": ['
        f'{leaf}, {leaf}]}}, {{"type": "builtins.dict", "context": "[4]", "children_spec": ['
        f"{leaf}]}}]}}]"
    )
    assert pytree.treespec_dumps(spec) == written and pytree.treespec_loads(written) == spec
    for tree in ({Color.RED: 1}, collections.defaultdict(list, a=1), collections.deque([1], 3)):
        spec = pytree.tree_structure(tree)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(NotImplementedError, match="didn't register a serializated_type_name"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    with pytest.raises(ValueError, match="Unknown protocol -1"):
        pytree.treespec_dumps(spec, -1)


def test_struct_sequences_are_told_from_named_tuples():
    assert pytree.is_structseq(sys.flags) and not pytree.is_namedtuple(sys.flags)
    assert pytree.is_namedtuple(Point) and not pytree.is_structseq(Point(1, 2))


def test_former_names_warn():
    with pytest.warns(FutureWarning, match="LeafSpec"):
        assert pytree.LeafSpec() == pytree.treespec_leaf()
    with pytest.warns(FutureWarning, match="children_specs"):
        assert pytree.tree_structure([1]).children_specs == [pytree.treespec_leaf()]
    with pytest.warns(FutureWarning, match="treespec_dumps"):
        pytree.pytree_to_str(pytree.treespec_leaf())


def test_without_optree_its_trees_are_an_import_error():
    code = (
        "import sys; sys.modules['optree'] = None; import importlib.metadata as m\n"
        "def absent(name): raise m.PackageNotFoundError(name)\n"
        "m.version = absent\n"
        "try: import tritorch.utils._cxx_pytree\n"
        "except ImportError as error: sys.exit('depends on `optree>=0.13.0`' not in str(error))\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_trees_of_optree():
    pytest.importorskip("optree")

    class Kept:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(Kept, lambda k: ([k.a, k.b], None), lambda v, _: Kept(*v))
    from tritorch.utils import _cxx_pytree as native

    tree = {"b": [1, Point(2, None)], "a": Kept(3, (4,))}
    leaves, spec = native.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4] == pytree.tree_leaves(tree)  # dicts keep their order
    again = native.tree_unflatten([x and 10 * x for x in leaves], spec)
    assert again["b"] == [10, Point(20, None)] and again["a"].b == (40,)
    plain = {"b": [1, (2, None)]}
    text = native.treespec_dumps(native.tree_structure(plain))
    assert text == pytree.treespec_dumps(pytree.tree_structure(plain))
    assert native.treespec_loads(text) == native.tree_structure(plain)
    with pytest.raises(NotImplementedError, match="KeyPaths"):
        native.tree_flatten_with_path(tree)


def test_optree_is_imported_by_nobody():
    code = "import sys, tritorch; sys.exit('tritorch.utils._pytree' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_vmap_maps_over_positional_arguments():
    x = torch.ones(2)
    out = torch.vmap(lambda a, b: a + b.sum())(x, b=x)
    assert out.tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure"):
        torch.vmap(lambda a: a, in_dims=(0, 0))(x)
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure"):
        torch.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x)
    with pytest.raises(ValueError, match="got no inputs"):
        torch.vmap(lambda: x)()
