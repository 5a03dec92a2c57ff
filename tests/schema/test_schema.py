"""Schemas, types and FileCheck against what the real torch said."""

import copy
import json
import pickle
from pathlib import Path

import pytest

import tritorch

from . import cases

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


def comparable(answer):
    """As JSON has it, and of an error its first line, which says what is wrong.

    Behind that torch shows the place, at the next word where a default is wrong; and it says where
    its documentation is.
    """
    if isinstance(answer, str):
        return answer.strip().split("\n")[0].partition("; ")[0].removeprefix("error: ").strip()
    return json.loads(json.dumps(answer))


@pytest.mark.parametrize("start", range(0, len(RECORDED["schemas"]), 50))
def test_parse_schema_as_recorded(start):
    for text, expected in list(RECORDED["schemas"].items())[start : start + 50]:
        assert comparable(cases.ask(tritorch.parse_schema, text)) == comparable(expected), text


def test_errors_show_the_place():
    with pytest.raises(RuntimeError) as caught:
        tritorch.parse_schema("a::b(int x) -> int foo bar")
    expected = (
        "expected eof but found 'ident' here:\n"
        "a::b(int x) -> int foo bar\n"
        "                       ~~~ <--- HERE\n"
    )
    assert str(caught.value) == expected
    with pytest.raises(RuntimeError, match=r"Expected classes namespace but got foo"):
        tritorch.parse_schema("a::b(__torch__.foo.Bar x) -> ()")
    with pytest.raises(TypeError, match="expected a str, got int"):
        tritorch.parse_schema(3)


def test_schemas_compare_hash_copy_and_pickle():
    text = (
        "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
    )
    schema = tritorch.parse_schema(text)
    assert schema == tritorch.parse_schema(text) and hash(schema) == hash(copy.deepcopy(schema))
    assert pickle.loads(pickle.dumps(schema)) == schema != "x"
    assert schema != tritorch.parse_schema(text.replace("alpha=1", "alpha=1.0"))
    alias = tritorch.parse_schema("a::b(Tensor(b|a) x) -> ()")
    assert alias == tritorch.parse_schema("a::b(Tensor(a|b) x) -> ()")
    argument = tritorch.Argument("x", tritorch.IntType.get(), 3, 5, True, None)
    made = tritorch.FunctionSchema("a::b", "", [argument], [], False, False)
    assert str(made) == "a::b(*, int x=5) -> ()"


def test_compatibility_as_recorded():
    schemas = [tritorch.parse_schema(text) for text in cases.split(cases.COMPATIBLE)]
    for new, row in zip(schemas, RECORDED["compatible"], strict=True):
        for old, (backward, forward) in zip(schemas, row, strict=True):
            ours = new.is_backward_compatible_with(old), new.check_forward_compatible_with(old)
            assert backward in (None, ours[0]), (new, old)
            if forward is not None and not forward[1].startswith("Out argument"):
                assert tuple(forward) == ours[1], (new, old)


def test_types_as_recorded():
    ours, theirs = cases.describe_types(tritorch), RECORDED["types"]
    for key in ours:
        assert ours[key] == theirs[key], key


def test_types_are_singletons_and_picklable():
    for kind in cases.types(tritorch):
        assert pickle.loads(pickle.dumps(kind)) == kind
        assert kind.isSubtypeOf(tritorch.AnyType.get())
    assert tritorch.IntType.get() is tritorch.IntType.get()
    for make in (tritorch.IntType, tritorch.TensorType):
        with pytest.raises(TypeError, match="No constructor defined"):
            make()
    with pytest.raises(TypeError, match="unhashable"):
        hash(tritorch.IntType.get())
    with pytest.raises(RuntimeError, match=r"Cannot create dict for key type 'int\[\]'"):
        tritorch.DictType(tritorch.ListType.ofInts(), tritorch.IntType.get())
    with pytest.raises(RuntimeError, match="has the single type int"):
        tritorch.UnionType([tritorch.IntType.get()] * 2)
    with pytest.raises(RuntimeError, match="expected a TensorType"):
        tritorch.IntType.get().sizes()


def test_inferred_types():
    from tritorch.schema import infer_type

    value = [(1, {"a": [tritorch.ones(1)]}), (2, {})]
    assert not infer_type(value).success()
    assert repr(infer_type(value[:1]).type()) == "List[Tuple[int, Dict[str, List[Tensor]]]]"
    assert repr(infer_type([1, None]).type()) == "List[Optional[int]]"
    assert repr(infer_type((True, 1j, None)).type()) == "Tuple[bool, complex, NoneType]"
    assert "Found int and str" in infer_type([1, "a"]).reason()
    with pytest.raises(RuntimeError, match="Reason: why"):
        tritorch.InferredType("why").type()


@pytest.mark.parametrize("number", range(len(cases.CHECKS)))
def test_file_check_as_recorded(number, capsys):
    assert cases.outcome(tritorch, cases.CHECKS[number]) == RECORDED["checks"][number]
    assert capsys.readouterr().out == ""


def test_file_check_reads_its_checks():
    check = tritorch.testing.FileCheck
    check().run("# CHECK: alpha\n# CHECK-NEXT: beta\n  # CHECK-COUNT-EXACTLY-1: three", cases.TEXT)
    with pytest.raises(RuntimeError, match="Could not parse check at:\n# CHECK-FOO: x\n"):
        check().run("# CHECK-FOO: x", cases.TEXT)
    with pytest.raises(RuntimeError, match="No checks have been added"):
        check().run(cases.TEXT)
    marked = "x = foo(1)\n    ~~~~~~ <--- HERE\ny = bar(2)\n    ~~~\n"
    check().check_source_highlighted("foo(1)").check_source_highlighted("bar").run(marked)
    with pytest.raises(RuntimeError, match=r'find "bar\(2\)" highlighted'):
        check().check_source_highlighted("bar(2)").run(marked)


def test_an_unused_file_check_says_so(capsys):
    tritorch.FileCheck().check_count("x", 2).check_next("y")
    assert capsys.readouterr().out == (
        "You have not run this instance of FileCheck!\nFileCheck checks:\n"
        "\tCHECK-COUNT-2: x\n\tCHECK-NEXT: y\n"
    )
