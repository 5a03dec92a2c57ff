"""A program's modules, which tests pack."""

import io
import sys

import pytest

from tritorch.package import PackageExporter, PackageImporter

FILES = {
    "shop/__init__.py": "import shop.prices\nresult = 'shop'\n",
    "shop/prices.py": """
from . import tax
from math import floor
class Price:
    def __init__(self, value):
        self.value = value
    def paid(self):
        return floor(tax.added(self.value))
    class Currency:
        pass
""",
    "shop/tax.py": "import rates\ndef added(x):\n    return x * rates.RATE\n",
    "rates.py": "RATE = 1.5\nclass Rate:\n    pass\n",
    "models.py": """
import torch_like as torch
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
    def forward(self, x):
        return torch.relu(x * self.weight)
""".replace("torch_like", "tritorch"),
}


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Modules that can be imported: shop, which has prices and tax, which needs rates; models."""
    for name, source in FILES.items():
        (tmp_path / "program" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "program" / name).write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path / "program"))
    yield tmp_path / "program"
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("shop", "rates", "models"):
            del sys.modules[name]


@pytest.fixture
def packed():
    """packed(fill) -> an importer of what fill(exporter) puts in."""

    def run(fill, **options):
        file = io.BytesIO()
        with PackageExporter(file, **options) as exporter:
            fill(exporter)
        file.seek(0)
        return PackageImporter(file)

    return run
