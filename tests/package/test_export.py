"""PackageExporter: which modules go in, what is said of those that cannot."""

import io
import sys
import zipfile

import pytest

import tritorch
from tritorch import package
from tritorch.package import EmptyMatchError, PackageExporter, PackagingError
from tritorch.package._digraph import DiGraph
from tritorch.package._stdlib import is_stdlib_module
from tritorch.package.find_file_dependencies import find_files_source_depends_on


def test_what_is_needed_goes_in(program, packed):
    import shop

    def fill(exporter):
        exporter.extern("rates")
        exporter.intern("shop.**")
        exporter.save_pickle("data", "price.pkl", shop.prices.Price(3))
        assert exporter.interned_modules() == ["shop.prices", "shop.tax"]
        assert exporter.externed_modules() == ["math", "rates"]
        assert exporter.mocked_modules() == exporter.denied_modules() == []
        assert exporter.get_rdeps("shop.tax") == ["shop.prices"]
        assert exporter.get_rdeps("nobody") == []
        edges = ['"<data.price.pkl>" -> "shop.prices";', '"shop.prices" -> "shop.tax";']
        for edge in edges:
            assert edge in exporter.dependency_graph_string()
        paths = exporter.all_paths("<data.price.pkl>", "rates")
        assert all(edge in paths for edge in edges) and "math" not in paths

    found = packed(fill).load_pickle("data", "price.pkl")
    assert found.paid() == 4 and type(found) is not shop.prices.Price


def test_imports_as_the_text_has_them():
    found = find_files_source_depends_on(
        """
import a.b as c, d
from e import f, g as h
from i import *
from . import j
from ..k import l
def later():
    import m
    return __import__("n.o"), __import__("p", fromlist=["q"], level=1), __import__(m)
""",
        "top.middle",
    )
    assert found == [
        ("a.b", None), ("d", None), ("e", "f"), ("e", "g"), ("i", None), ("top.middle", "j"),
        ("top.k", "l"), ("m", None), ("n.o", None), ("n", None), ("top.middle.p", "q"),
    ]  # fmt: skip


def test_every_broken_module_is_told_at_once(program, tmp_path):
    (program / "rates.py").write_text("import io\nimport sys\nimport zlib\nimport _pickle\n")
    exporter = PackageExporter(io.BytesIO(), debug=True)
    exporter.deny("shop.tax")
    exporter.intern(["shop*.**", "tritorch_like", "numpy._core._multiarray_umath", "made"])
    exporter.save_source_string("top", "import shop.tax\nimport numpy._core._multiarray_umath\n")
    exporter.save_module("rates")
    exporter.save_source_string("wrong", "from ....... import x")
    exporter.save_source_string("user", "import models")
    with pytest.raises(PackagingError) as caught:
        exporter.close()
    text = str(caught.value)
    for said in (
        "* Module was denied by a pattern.\n    shop.tax\n      A path to shop.tax: top -> shop.t",
        "* Module is a C extension module. torch.package supports Python modules only.\n    numpy",
        "* Dependency resolution failed.\n    wrong\n      Context: attempted relative import bey",
        "* Module did not match against any action pattern. Extern, mock, or intern it.\n    io\n"
        "      Note: While we usually use modules in the python standard library from the local en",
        "    sys\n      Note: ",
        "    models\n      A path to models: user -> models\n",
    ):
        assert said in text, text
    assert "zlib" not in text and "Set debug=True" not in text
    uses = package.analyze.find_first_use_of_broken_modules(caught.value)
    assert uses["models"] == ["user", "models"] and uses["wrong"] == ["wrong"]
    assert repr(caught.value.dependency_graph.nodes["sys"]["error"]) == (
        "<PackagingErrorReason.NO_ACTION>"
    )


def test_pickles_may_not_hold_what_is_mocked(program):
    import rates

    exporter = PackageExporter(io.BytesIO())
    exporter.mock("rates")
    exporter.save_pickle("data", "rate.pkl", [rates.Rate()])
    with pytest.raises(PackagingError, match="Module was mocked out, but is still being used in t"):
        exporter.close()


def test_mocked_modules_are_errors_when_they_are_used(program, packed):
    def fill(exporter):
        exporter.mock("rates", allow_empty=False)
        exporter.save_module("shop.tax")

    importer = packed(fill)
    tax = importer.import_module("shop.tax")
    assert repr(tax.rates.RATE) == f"MockedObject({importer.id()}.rates.RATE)"
    for use, method in ((lambda: tax.added(2), "__rmul__"), (lambda: tax.rates.f(), "__call__")):
        with pytest.raises(
            NotImplementedError, match=f"was mocked out during .* used in {method}$"
        ):
            use()
    with pytest.raises(NotImplementedError, match="is being used in '__new__'"):
        type(tax.rates.RATE)._name = "rates.Rate"
        type(tax.rates.RATE)()
    # An archive that is packed again has one `_mock`, and its importer is no module of it.
    again = packed(lambda e: (e.mock("rates"), e.save_module("shop.tax")), importer=importer)
    assert sorted(again.file_structure(include="**/*.py").children) == [
        "_mock.py", "rates.py", "shop",
    ]  # fmt: skip


def test_patterns_that_have_to_match(program):
    for kind in ("mock", "extern", "intern"):
        exporter = PackageExporter(io.BytesIO())
        getattr(exporter, kind)(include=["rate*"], exclude="rates", allow_empty=False)
        exporter.save_module("shop.prices", dependencies=False)
        with pytest.raises(
            EmptyMatchError, match=r"match any modules to GlobGroup\(include=\['rat"
        ):
            exporter.close()


def test_hooks_see_each_module(program):
    seen = []
    with PackageExporter(io.BytesIO()) as exporter:
        exporter.mock("rates")
        exporter.extern("math")
        exporter.intern("shop.**")
        note = lambda kind: lambda who, name: seen.append((kind, name))
        exporter.register_mock_hook(note("mock"))
        exporter.register_intern_hook(note("intern"))
        gone = exporter.register_extern_hook(note("gone"))
        exporter.register_extern_hook(note("extern"))
        gone.remove()
        exporter.save_module("shop.prices")
    assert sorted(seen) == [
        ("extern", "math"), ("intern", "shop.prices"), ("intern", "shop.tax"), ("mock", "rates"),
    ]  # fmt: skip


def test_a_failed_export_leaves_the_file_alone(program, tmp_path):
    path = tmp_path / "kept.pt"
    path.write_bytes(b"before")
    with pytest.raises(PackagingError), PackageExporter(path) as exporter:
        exporter.save_source_string("top", "import rates")
    with pytest.raises(ZeroDivisionError), PackageExporter(path) as exporter:
        exporter.save_text("a", "b", "c")
        raise ZeroDivisionError
    assert path.read_bytes() == b"before" and [*tmp_path.glob(".*")] == []
    buffer = io.BytesIO()
    with pytest.raises(ZeroDivisionError), PackageExporter(buffer) as exporter:
        exporter.save_text("a", "b", "c")
        raise ZeroDivisionError
    assert zipfile.ZipFile(buffer).read("archive/a/b") == b"c"


def test_the_archive_is_pytorchs():
    file, base = io.BytesIO(), tritorch.arange(4.0)
    with PackageExporter(file) as exporter:
        exporter.save_pickle("a", "x.pkl", base[1:])
        exporter.save_pickle("a", "y.pkl", [base, tritorch.float16, tritorch.nn.Linear(1, 1)])
        with pytest.raises(
            AssertionError, match="Tried to write file 'a/x.pkl', but it already ex"
        ):
            exporter.save_text("a", "x.pkl", "")
        with pytest.raises(ValueError, match="'b/c' must be only a file name"):
            exporter.save_text("a", "b/c", "")
        with pytest.raises(AssertionError, match="only supports pickle protocols 3 and 4, got 2"):
            exporter.save_pickle("a", "z.pkl", 1, pickle_protocol=2)
    archive = zipfile.ZipFile(file)
    assert [name.removeprefix("archive/") for name in archive.namelist()] == [
        ".data/0.storage", "a/x.pkl", ".data/1.storage", ".data/2.storage", "a/y.pkl",
        ".data/extern_modules", ".data/python_version", ".data/version", "byteorder",
        ".data/serialization_id",
    ]  # fmt: skip
    external = archive.read("archive/.data/extern_modules").decode().split()
    assert external[:3] == ["torch._utils", "torch", "collections"]
    assert "torch.nn.modules.linear" in external and not any("tri" in name for name in external)
    assert archive.read("archive/.data/version") == b"6\n"


def test_arguments(program):
    with pytest.raises(
        TypeError, match="should be an Importer or a sequence of Importers, got <cl"
    ):
        PackageExporter(io.BytesIO(), importer=3)
    with pytest.raises(
        TypeError, match="expects a string input, did you perhaps mean to pass `__n"
    ):
        PackageExporter(io.BytesIO()).save_module(sys)
    with pytest.raises(
        ModuleNotFoundError, match="Make sure the PackageImporter that created this"
    ):
        PackageExporter(io.BytesIO()).save_module("<torch_package_999>.shop")


def test_graphs():
    graph = DiGraph()
    for edge in ("ab", "bd", "ac", "cd", "de", "xd"):
        graph.add_edge(*edge)
    graph.add_node("a", colour="red")
    assert graph.nodes["a"] == {"colour": "red"} and [*graph.successors("a")] == ["b", "c"]
    assert graph.forward_transitive_closure("c") == {"c", "d", "e"}
    assert graph.backward_transitive_closure("b") == {"a", "b"}
    assert graph.first_path("e") == ["a", "b", "d", "e"]
    assert "a" in graph and [] not in graph and "y" not in graph
    with pytest.raises(ValueError, match="^The node y is not in the digraph.$"):
        graph.predecessors("y")
    graph.add_edge("e", "a")  # a circle ends too
    assert graph.first_path("e")[-2:] == ["d", "e"]


def test_patterns():
    group = package.GlobGroup(["torch.**", "a*.b"], exclude="torch.nn.*")
    names = ["torch", "torch.x.y", "torch.nn", "torch.nn.x", "abc.b", "a.b.c", "ab"]
    assert [name for name in names if group.matches(name)] == names[:3] + ["abc.b"]
    assert str(group) == "GlobGroup(include=['torch.**', 'a*.b'], exclude=torch.nn.*)"
    with pytest.raises(ValueError, match="can only appear as an entire path segment"):
        package.GlobGroup("a**")
    assert is_stdlib_module("xml.sax") and not is_stdlib_module("numpy")


def test_what_runs_is_traced(program):
    import shop

    found = package.analyze.trace_dependencies(lambda x: shop.prices.Price(x).paid(), [(1,), (2,)])
    assert {"shop.prices", "shop.tax"} <= {*found} and "rates" not in found
