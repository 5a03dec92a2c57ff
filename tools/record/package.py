"""Writes tests/package/recorded.pt: an archive that the real torch.package has written.

python tools/record/package.py     # with torch installed; the tests need only the file
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch
from recording import TESTS
from torch.package import PackageExporter

SOURCE = """
import torch
from torch import nn
import torch.nn.functional as F
from left_out import missing


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        nn.init.constant_(self.inner.weight, 0.5)
        nn.init.constant_(self.inner.bias, -1.0)

    def forward(self, x):
        return F.relu(self.inner(x))
"""


def main() -> None:
    """Writes the file."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "of_torch.py").write_text(SOURCE)
        Path(folder, "left_out.py").write_text("missing = 3")
        sys.path.insert(0, folder)
        import of_torch

        base = torch.arange(6.0)
        module = of_torch.Scaled()
        with PackageExporter(TESTS / "package/recorded.pt") as exporter:
            exporter.intern("of_torch")
            exporter.mock("left_out")
            exporter.save_pickle("objects", "module.pkl", module)
            exporter.save_pickle("objects", "graph.pkl", torch.fx.symbolic_trace(module))
            exporter.save_pickle(
                "objects",
                "tensors.pkl",
                {"base": base, "part": base[2:4], "kind": torch.bfloat16, "shape": base.shape},
                pickle_protocol=4,
            )
            exporter.save_text("objects", "words.txt", "of torch")


if __name__ == "__main__":
    main()
