"""Writes down what the real torch says of schemas, types and FileCheck: tests/schema.

Run with a Python that has torch: python tools/record/schema.py
"""

from typing import Any

import torch
from recording import TESTS, write_json

from tests.schema import cases

# Of the several thousand schemas that torch has, those with a feature of their own and some more.
EVERY = 25


def main() -> None:
    """Records everything."""
    parse = torch._C.parse_schema
    real = sorted(str(schema) for schema in torch._C._jit_get_all_schemas())
    real = [text for text in real if "|" not in text]  # whose order torch does not keep
    texts = [f"a::b({text}) -> ()" for text in cases.split(cases.ARGUMENTS)]
    texts += [*cases.split(cases.SCHEMAS), *real[::EVERY]]
    compatible = [parse(text) for text in cases.split(cases.COMPATIBLE)]
    found = {
        "schemas": {text: cases.ask(parse, text) for text in texts},
        "compatible": [[[backward(a, b), forward(a, b)] for b in compatible] for a in compatible],
        "types": cases.describe_types(torch),
        "checks": [cases.outcome(torch, checks) for checks in cases.CHECKS],
    }
    write_json(TESTS / "schema/recorded.json", found, indent=0, separators=(",", ":"))


# Where torch reads beyond the end of a list there is nothing to compare with.


def backward(a: Any, b: Any) -> bool | None:
    """is_backward_compatible_with."""
    try:
        return bool(a.is_backward_compatible_with(b))
    except IndexError:
        return None


def forward(a: Any, b: Any) -> list[Any] | None:
    """check_forward_compatible_with."""
    try:
        return list(a.check_forward_compatible_with(b))
    except IndexError:
        return None


if __name__ == "__main__":
    main()
