"""Short names of dtypes, as texts of graphs have them."""

from __future__ import annotations

import re

from tritorch.core.dtype import dtype

_LETTERS = {"float": "f", "bfloat": "bf", "complex": "c", "int": "i", "uint": "u", "bits": "bits"}


def _short(name: str) -> str:
    """f32 of float32, b8 of bool, f8e4m3fn of float8_e4m3fn."""
    if name == "bool":
        return "b8"
    parts = re.fullmatch(r"([a-z]+)(\d+)(.*)", name)
    if parts is None or parts[1] not in _LETTERS:
        return name
    return f"{_LETTERS[parts[1]]}{parts[2]}{parts[3].replace('_', '')}"


def _all() -> dict[dtype, str]:
    from tritorch.core import dtype as module

    found = [each for each in vars(module).values() if isinstance(each, dtype)]
    return {each: _short(str(each).rpartition(".")[2]) for each in found}


dtype_abbrs = _all()
