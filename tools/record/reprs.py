#!/usr/bin/env python3
"""Records how PyTorch prints tensors, for tests/core/test_printing.py.

    PYTHON_WITH_TORCH tools/record/reprs.py

The cases are Python expressions of `torch` and `np`, each with the print options that it is
printed under.  The tests evaluate the same expressions with tritorch in torch's place, and so need
no torch.
"""

from __future__ import annotations

import json

from recording import TESTS

TARGET = TESTS / "core" / "recorded_reprs.json"

FLOATS = [
    "[0.0]", "[1.0]", "[-1.0, 2.0]", "[0.5]", "[1.5, -2.25, 3.0]", "[0.0, -0.0]", "[1e-3, 1.0]",
    "[1e-4, 1.0]", "[9.9e-5, 1.0]", "[1e-5]", "[1e-10, 1e10]", "[1e8]", "[1.5e8]", "[2e8, 1.0]",
    "[1e8 + 8]", "[99999999.0]", "[123456.0, 1.0]", "[1000.0, 1.0]", "[1001.0, 1.0]",
    "[1000.5, 1.0]", "[1001.5, 1.0]", "[float('inf')]", "[float('nan')]", "[float('-inf'), 1.0]",
    "[float('nan'), 1.5, float('inf')]", "[float('inf'), float('-inf'), float('nan')]",
    "[float('nan'), 1e10, 1.0]", "[float('-inf'), 1e-8]", "[float('inf'), 0.0]",
    "[float('nan'), 0.0, -0.0]", "[-0.0]", "[-0.0, 1.5]", "[3.14159265, 2.71828, -1.41421356]",
    "[1e38, 1e-38]", "[1e-45]", "[12345.678]", "[-12345.678, 0.001]", "[0.00012345]",
    "[1.0, 10.0, 100.0]", "[1.0, 10.0, 100.0, 10000.0]", "[-1.0, -10.0, 5.0]", "[0.99999]",
    "[9.99999]", "[0.1, 0.25, 123.0]", "[16777216.0, 1.0]", "[-100000000.0]", "[-100000001.0, 3.5]",
]  # fmt: skip
SCALARS = [
    "0.0",
    "-0.0",
    "1.0",
    "1.5",
    "1e-5",
    "1e9",
    "123456789.0",
    "float('inf')",
    "float('nan')",
]

Case = tuple[str, dict[str, object]]


def cases() -> list[Case]:
    """Expressions, each with print options."""
    plain = [f"torch.tensor({values})" for values in FLOATS]
    plain += [f"torch.tensor({value})" for value in SCALARS]
    for kind in ("float64", "float16", "bfloat16"):
        plain += [f"torch.tensor({v}, dtype=torch.{kind})" for v in FLOATS[::3] + SCALARS[::2]]
    plain += [
        # integers and bools
        "torch.tensor([1, 2, 3])", "torch.tensor([-1, 10, 100])", "torch.tensor(7)",
        "torch.tensor([9223372036854775807, -9223372036854775808])", "torch.tensor([0])",
        "torch.tensor([1, 2], dtype=torch.int32)", "torch.tensor([1, -2], dtype=torch.int8)",
        "torch.tensor([1, 255], dtype=torch.uint8)", "torch.tensor([-300, 5], dtype=torch.int16)",
        "torch.tensor([True, False])", "torch.tensor(True)", "torch.tensor([[True], [False]])",
        "torch.tensor([1, 65535], dtype=torch.uint16)", "torch.tensor(3, dtype=torch.int16)",
        # complex
        "torch.tensor([1 + 2j, -1.5 - 0.25j])", "torch.tensor(1j)", "torch.tensor([0j, -0j])",
        "torch.tensor([1 + 2j, 3 - 4j])", "torch.tensor([1e10 + 1j, 1 - 1e-10j])",
        "torch.tensor([1.5 + 2j], dtype=torch.complex128)", "torch.tensor([[1j, 2], [3, 4 - 1j]])",
        "torch.tensor([complex(float('nan'), 1), complex(2, float('inf'))])",
        "torch.tensor([complex(1, float('-inf')), complex(-0.0, -0.0)])",
        "torch.arange(40) * (1 - 0.5j)", "torch.arange(2000) * (1 - 0.5j)",
        "torch.tensor([100 + 0.001j, 1 + 1j])",
        # empty
        "torch.tensor([])", "torch.empty(0, 3)", "torch.empty(2, 0, 4)",
        "torch.empty(0, dtype=torch.int64)", "torch.empty(0, 2, dtype=torch.bool)",
        "torch.empty((0,), dtype=torch.float64)", "torch.empty(0, requires_grad=True)",
        "torch.empty(3, 0, dtype=torch.complex64)",
        # dims
        "torch.arange(6.0).reshape(2, 3)", "torch.arange(24).reshape(2, 3, 4)",
        "torch.arange(16.0).reshape(2, 2, 2, 2) / 3", "torch.zeros(1, 1, 1, 1)",
        "torch.ones(3, 1)", "torch.arange(12).reshape(3, 4).T", "torch.eye(3)",
        "torch.arange(120.0) / 7", "torch.arange(100)", "torch.arange(60).reshape(2, 30)",
        "torch.arange(60.0).reshape(1, 2, 30) * 1e6", "torch.arange(40) % 2 == 0",
        "torch.arange(24.0).reshape(2, 3, 4)[:, ::2]", "torch.ones(2, 3).expand(4, 2, 3)",
        # summarised
        "torch.arange(1000)", "torch.arange(1001)", "torch.arange(1001.0)", "torch.zeros(2000)",
        "torch.arange(10000.0).reshape(100, 100)", "torch.arange(12000).reshape(3, 4000)",
        "torch.arange(12000).reshape(4000, 3)", "torch.arange(8000.0).reshape(20, 20, 20) / 3",
        "torch.arange(4096).reshape(8, 8, 8, 8)", "torch.arange(4096).reshape(4, 16, 4, 16)",
        "torch.arange(2000) > 5", "torch.arange(2000, dtype=torch.int32)",
        "torch.cat([torch.zeros(600), torch.full((1,), 1e-9), torch.zeros(600)])",
        "torch.arange(1001, dtype=torch.float64).requires_grad_()",
        "torch.arange(1200).view(2, 600)",
        "torch.arange(1200).view(6, 200)", "torch.arange(1400).view(7, 200)",
        # history
        "torch.tensor([1.0, 2.0], requires_grad=True)", "torch.tensor(1.5, requires_grad=True)",
        "torch.ones(2, requires_grad=True) * 2", "torch.ones(2, requires_grad=True).sum()",
        "torch.ones(2, 2, requires_grad=True) + 1", "torch.ones(2, requires_grad=True)[0]",
        "torch.ones(2, requires_grad=True).exp()", "torch.ones(2, requires_grad=True)[:1]",
        "torch.ones(2, 2, requires_grad=True) @ torch.ones(2, 2)",
        "torch.ones(4, requires_grad=True).view(2, 2)", "-torch.ones(2, requires_grad=True)",
        "torch.ones(2, requires_grad=True).mean()", "torch.ones(2, requires_grad=True).double()",
        "torch.ones(2, requires_grad=True).clone()",
        "torch.ones(2, requires_grad=True) / 3", "torch.ones(2, requires_grad=True) - 3",
        "torch.ones(2, requires_grad=True) ** 2", "torch.ones(2, requires_grad=True).detach()",
        "torch.relu(torch.ones(2, requires_grad=True))", "torch.ones(2, requires_grad=True).tanh()",
        "torch.softmax(torch.zeros(1, 4, requires_grad=True), -1)",
        "torch.ones(2, 3, requires_grad=True).transpose(0, 1)",
        "torch.tensor([1j], requires_grad=True)",
        "torch.cat([torch.ones(2, requires_grad=True)] * 2)",
        "torch.ones(2, requires_grad=True).unsqueeze(0)",
        "torch.ones(1, 2, requires_grad=True).squeeze()",
        "torch.ones(2, 3, requires_grad=True).permute(1, 0)",
        "torch.ones(2, requires_grad=True).log()",
        "torch.ones(2, requires_grad=True).sqrt()", "torch.ones(2, requires_grad=True).abs()",
        "torch.ones(2, requires_grad=True).sigmoid()",
        "torch.ones(2, requires_grad=True).expand(3, 2)",
        "torch.arange(30.0).requires_grad_().double() / 7",
        "torch.where(torch.ones(2) > 0, torch.ones(2, requires_grad=True), torch.zeros(2))",
        # not tensors
        "torch.Size([])", "torch.Size([2, 3])", "torch.zeros(2, 3).shape",
        "torch.zeros(2, 3).size()",
        "torch.Size([2, 3])[1:]", "torch.Size([2]) + torch.Size([3])",
        "[torch.zeros(2), torch.ones(1)]",
        "torch.device('cpu')", "torch.device('cuda')", "torch.device('cuda', 1)",
        "torch.device('cuda:3')", "str(torch.device('cuda:3'))", "str(torch.device('cpu'))",
        "torch.strided", "torch.contiguous_format", "torch.channels_last", "torch.preserve_format",
        "torch.zeros(2).type()", "torch.zeros(2).long().type()", "torch.zeros(2).bfloat16().type()",
        "'{}'.format(torch.tensor(1.5))", "'{:.3f}'.format(torch.tensor(1.5))",
        "str(torch.tensor([1]))",
        "f'{torch.tensor(3):5d}|'", "f'{torch.tensor([1.5])}'", "f'{torch.tensor(True)}'",
        "torch.max(torch.tensor([[1.0, 3.0]]), 1)", "torch.sort(torch.tensor([2, 1]))",
        "torch.ones(2).storage_offset()", "torch.set_default_dtype(torch.float32)",
    ]  # fmt: skip
    kinds = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 "
    )
    kinds += (
        "float8_e4m3fn float8_e5m2 complex64 complex128 half float double short int long cfloat"
    )
    plain += [f"torch.{kind}" for kind in kinds.split()]
    floats = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    plain += [f"torch.finfo(torch.{k})" for k in [*floats, "float8_e4m3fn", "float8_e5m2"]]
    plain += [f"torch.finfo(torch.{k}).{name}" for k in floats[:4]
              for name in ("eps", "max", "min", "tiny", "resolution", "bits")]  # fmt: skip
    plain += [f"torch.iinfo(torch.{k})" for k in kinds.split()[1:9]]
    plain += [f"torch.iinfo(torch.{k}).max" for k in kinds.split()[1:9]]
    found: list[Case] = [(text, {}) for text in plain]

    shown = [
        "torch.tensor([3.14159265, 0.5])", "torch.tensor([1.0, 2.0])", "torch.tensor([1e-7, 1e7])",
        "torch.tensor([1.0, 100000.0])", "torch.tensor([float('nan'), 0.1234567])",
        "torch.tensor([1.5 + 0.123456j])", "torch.arange(30.0) / 3", "torch.arange(30)",
        "torch.arange(2000)", "torch.arange(3000.0).reshape(50, 60)", "torch.tensor(2.71828)",
        "torch.tensor([0.0, float('inf')])", "torch.arange(30.0).requires_grad_() * 2",
        "torch.arange(10, dtype=torch.int16)", "torch.arange(1001).reshape(7, 11, 13)",
    ]  # fmt: skip
    options: list[dict[str, object]] = [
        {"precision": 2}, {"precision": 8}, {"precision": 0}, {"sci_mode": True},
        {"sci_mode": False}, {"linewidth": 40}, {"linewidth": 200}, {"linewidth": 1},
        {"edgeitems": 1}, {"edgeitems": 5}, {"edgeitems": 0}, {"threshold": 5},
        {"threshold": 10000},
        {"profile": "short"}, {"profile": "full"}, {"profile": "default", "precision": 3},
        {"threshold": 5, "edgeitems": 2, "linewidth": 30}, {"sci_mode": True, "precision": 1},
    ]  # fmt: skip
    found += [
        (text, option)
        for text in shown
        for option in options
        if not ("profile" in option and option["profile"] == "full" and "3000" in text)
    ]
    return found


def main() -> None:
    """Writes what torch prints."""
    import numpy as np
    import torch

    recorded = []
    for text, options in cases():
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        value = eval(text, {"torch": torch, "np": np})
        recorded.append([text, options, value if isinstance(value, str) else repr(value)])
    TARGET.write_text(
        "{\n"
        + f'"torch": {json.dumps(torch.__version__)},\n"cases": [\n'
        + ",\n".join(json.dumps(case) for case in recorded)
        + "\n]\n}\n"
    )
    print(f"{len(recorded)} cases of torch {torch.__version__} in {TARGET}")


if __name__ == "__main__":
    main()
