"""PackageImporter: modules, objects and files of archives, PyTorch's among them."""

import importlib.resources
import inspect
import io
import platform
import traceback
import zipfile
from pathlib import Path

import pytest

import tritorch
from tritorch.package import (
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    is_from_package,
    sys_importer,
)

RECORDED = Path(__file__).with_name("recorded.pt")


def test_an_archive_of_pytorchs():
    importer = PackageImporter(RECORDED)
    x = tritorch.tensor([[1.0, 3.0], [0.0, 1.0]])
    module = importer.load_pickle("objects", "module.pkl")
    assert module(x).tolist() == [[1, 1], [0, 0]]
    assert type(module).__bases__ == (tritorch.nn.Module,) and is_from_package(module)
    graph = importer.load_pickle("objects", "graph.pkl")
    assert isinstance(graph, tritorch.fx.GraphModule) and graph(x).tolist() == [[1, 1], [0, 0]]
    found = importer.load_pickle("objects", "tensors.pkl")
    assert found["part"].data_ptr() == found["base"].data_ptr() + 8
    assert found["part"].tolist() == [2, 3]
    assert found["kind"] is tritorch.bfloat16 and found["shape"] == (6,)
    assert importer.load_text("objects", "words.txt") == "of torch"
    on_meta = importer.load_pickle("objects", "tensors.pkl", map_location="meta")
    assert on_meta["base"].is_meta


def test_the_same_from_a_folder(tmp_path):
    zipfile.ZipFile(RECORDED).extractall(tmp_path)
    importer = PackageImporter(tmp_path / "recorded")
    found = importer.load_pickle("objects", "tensors.pkl")
    assert found["base"].tolist() == [0, 1, 2, 3, 4, 5]
    found["part"].zero_()
    assert found["base"].tolist() == [0, 1, 0, 0, 4, 5]
    again = PackageImporter(tmp_path / "recorded").load_pickle("objects", "tensors.pkl")
    assert again["part"].tolist() == [2, 3]  # the file has not changed
    reader = importer.get_resource_reader("objects")
    assert Path(reader.resource_path("words.txt")).read_text() == "of torch"


def test_modules_are_the_archives_own(program, packed):
    import shop

    importer = packed(lambda e: (e.intern(["shop.**", "rates"]), e.save_module("shop")))
    theirs = importer.import_module("shop")
    assert theirs is importer.import_module("shop") is not shop
    assert theirs.__name__ == f"{importer.id()}.shop"
    assert theirs.prices.Price.__module__ == f"{importer.id()}.shop.prices"
    assert importer.import_module(theirs.prices.Price.__module__) is theirs.prices
    assert theirs.prices.Price(2).paid() == 3
    (program / "rates.py").write_text("RATE = 0")
    assert importer.import_module("shop.tax").rates.RATE == 1.5
    assert inspect.getsource(theirs.prices.Price) == inspect.getsource(shop.prices.Price)
    assert theirs.__torch_package__ and not hasattr(shop, "__torch_package__")
    with pytest.raises(ModuleNotFoundError) as caught:
        importer.import_module("models")
    assert str(caught.value) == (
        'No module named "models" in self-contained archive "<binary>" and the module is also not '
        "in the list of allowed external modules: ['math']"
    )
    assert caught.value.name == "models"
    with pytest.raises(
        ModuleNotFoundError, match="No module named 'rates.x'; 'rates' is not a pac"
    ):
        importer.import_module("rates.x")


def test_imports_of_all_kinds(packed):
    sources = {
        "top": "from . import sub\nfrom .sub.deep import name\nfrom .sub import *\n"
        "import top.sub.deep as alias\nimport os.path, xml.sax.handler\nfrom os import path\n"
        "try:\n    from .sub import nothing\nexcept ImportError as error:\n    said = str(error)\n",
        "top.sub": "__all__ = ['deep', 'x']\nx = 1",
        "top.sub.deep": "import top as above\nname = __name__\nfrom .. import later",
        "top.later": "from torch_package_importer import load_text\ntext = load_text('top', 't')",
        "bad": "import sub_of_bad\n1 / 0",
        "sub_of_bad": "",
    }

    def fill(exporter):
        exporter.intern("**")
        exporter.save_text("top", "t", "words")
        for name, source in sources.items():
            exporter.save_source_string(name, source, is_package=name in ("top", "top.sub"))

    importer = packed(fill)
    top = importer.import_module("top")
    assert top.name == f"{importer.id()}.top.sub.deep" and top.alias is top.sub.deep is top.deep
    assert top.sub.deep.above is top and top.x == 1 and top.later.text == "words"
    assert top.path is top.os.path and top.xml.sax.handler
    assert top.said.startswith("cannot import name 'nothing' from '<torch_package_")
    for _ in range(2):  # it does not stay half made
        with pytest.raises(ZeroDivisionError) as caught:
            importer.import_module("bad")
        assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "1 / 0"


def test_external_modules(program, packed):
    import rates

    def fill(exporter):
        exporter.extern("rates")
        exporter.save_source_string("top", "import torch\nimport torch.nn as nn\nimport rates\n")

    importer = packed(fill)
    top = importer.import_module("top")
    assert top.torch is tritorch and top.nn is tritorch.nn and top.rates is rates
    assert not is_from_package(top.rates) and is_from_package(top)
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        fill(exporter)
    file.seek(0)
    with pytest.raises(
        ImportError, match="needs the external module 'rates' but that module has b"
    ):
        PackageImporter(file, module_allowed=lambda name: name != "rates")


def test_objects(program, packed):
    import models
    import shop

    model = models.Scaled()
    model.weight.data[1] = -1.0
    shared = [model.weight, shop.prices.Price.Currency, model]

    def fill(exporter):
        exporter.intern("**")
        exporter.save_pickle("a", "three.pkl", shared)
        exporter.save_pickle("a", "four.pkl", shared, pickle_protocol=4)

    importer = packed(fill)
    for name in ("three.pkl", "four.pkl"):
        weight, currency, found = importer.load_pickle("a", name)
        assert weight is found.weight and weight.requires_grad
        assert currency is importer.import_module("shop.prices").Price.Currency
        assert found(tritorch.ones(2)).tolist() == [1, 0]
    # Objects of an archive are packed again with its importer, and not without.
    again = packed(
        lambda e: (e.intern("**"), e.save_pickle("a", "b.pkl", found)),
        importer=(importer, sys_importer),
    )
    assert again.load_pickle("a", "b.pkl")(tritorch.ones(2)).tolist() == [1, 0]
    with pytest.raises(Exception, match="it's not found as <torch_package_"):
        packed(lambda e: e.save_pickle("a", "b.pkl", found))


def test_graphs_take_their_functions_along(program, packed):
    importer = packed(lambda e: (e.intern("**"), e.save_module("shop")))
    tax = importer.import_module("shop.tax")
    graph = tritorch.fx.Graph()
    graph.output(graph.call_function(tax.added, (graph.placeholder("x"),)))
    traced = tritorch.fx.GraphModule(tritorch.nn.Module(), graph)
    with pytest.raises(
        ObjMismatchError, match="lists the importer for <torch_package_.*> before '"
    ):
        packed(lambda e: (e.intern("**"), e.save_pickle("a", "g.pkl", traced)))
    both = (importer, sys_importer)
    again = packed(lambda e: (e.intern("**"), e.save_pickle("a", "g.pkl", traced)), importer=both)
    assert again.load_pickle("a", "g.pkl")(tritorch.ones(1)).tolist() == [1.5]


def test_objects_that_pack_themselves(packed):
    class Packs:
        def __reduce_package__(self, exporter):
            exporter.save_text("a", f"note{exporter.get_unique_id()}", "kept")
            return _unpacked, ("note0",)

    one = Packs()
    importer = packed(
        lambda e: (e.extern("tests.**"), e.save_pickle("a", "b.pkl", [one, one])),
    )
    first, second = importer.load_pickle("a", "b.pkl")
    assert first is second and first == ["kept", importer.id()]


def _unpacked(importer, name):
    assert importer.storage_context is not None
    return [importer.load_text("a", name), importer.id()]


def test_files(packed):
    def fill(exporter):
        exporter.save_text("one", "a.txt", "text ä")
        exporter.save_binary("one", "b.bin", b"\0\1")
        exporter.save_text("one.three", "c.txt", "")
        exporter.save_source_string("module", "")

    importer = packed(fill)
    assert importer.load_text("one", "a.txt") == "text ä"
    assert importer.load_binary("one", "b.bin") == b"\0\1"
    one = importer.import_module("one")
    assert importlib.resources.files(one).joinpath("a.txt").read_text(encoding="utf-8") == "text ä"
    reader = importer.get_resource_reader("one")
    assert [*reader.contents()] == ["a.txt", "b.bin", "three"]
    assert reader.is_resource("a.txt") and not reader.is_resource("three")
    with pytest.raises(FileNotFoundError):
        reader.resource_path("a.txt")
    assert importer.get_resource_reader("nothing") is None
    with pytest.raises(TypeError, match="'module' is not a package"):
        importer.load_text("module", "a.txt")
    assert importer.python_version() == platform.python_version()
    tree = importer.file_structure(include=["one/**", "**/*.py"], exclude="**/*.bin")
    assert str(tree) == (
        "─── <binary>\n    ├── one\n    │   ├── three\n    │   │   └── c.txt\n"
        "    │   └── a.txt\n    └── module.py\n"
    )
    assert tree.has_file("one/three/c.txt") and not tree.has_file("one/b.bin")
    assert not tree.has_file("module.py/x")


def test_archives_that_contradict_themselves(packed):
    with pytest.raises(
        ImportError, match="inconsistent module structure. package contains a module"
    ):
        packed(lambda e: (e.extern("a"), e.save_text("a", "b", ""), e.add_dependency("a")))
    with pytest.raises(
        ImportError, match="inconsistent module structure. module a is not a package"
    ):
        packed(
            lambda e: (
                e.save_source_string("a", ""), e.save_source_string("a.b", ""),
            )
        )  # fmt: skip


def test_importers(program, packed, caplog):
    import shop

    importer = packed(lambda e: (e.intern("**"), e.save_module("shop.tax")))
    assert sys_importer.get_name(shop.prices.Price.Currency) == (
        "shop.prices", "Price.Currency",
    )  # fmt: skip
    theirs = importer.import_module("shop.tax")
    assert importer.get_name(theirs.added) == ("shop.tax", "added")
    with pytest.raises(ObjMismatchError) as caught:
        importer.get_name(shop.tax.added)
    assert str(caught.value) == (
        f"\n\nThe object provided is from 'shop.tax', which is coming from the current Python "
        f"environment.\nHowever, when we import '{importer.id()}.shop.tax', it's coming from "
        f"{importer.id()}.\nTo fix this, make sure this 'PackageExporter's importer lists "
        f"'sys_importer' before the importer for {importer.id()}."
    )
    with pytest.raises(ObjNotFoundError, match="was not found as shop.prices.Price"):
        importer.get_name(shop.prices.Price)
    both = OrderedImporter(importer, sys_importer)
    assert both.get_name(shop.prices.Price) == ("shop.prices", "Price")
    assert "Tried to call get_name with obj" in caplog.text
    assert both.import_module("shop.tax") is theirs
    # shop is in the archive only because shop.tax is.
    assert both.import_module("shop") is shop and importer.import_module("shop") is not shop
    with pytest.raises(ModuleNotFoundError):
        both.import_module("no_such_module")
    with pytest.raises(TypeError, match="3 is not a Importer"):
        OrderedImporter(3).import_module("shop")
