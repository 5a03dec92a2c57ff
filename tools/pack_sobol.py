"""Packs Joe and Kuo's direction numbers into tritorch/ops/random/sobol.npz.

    python tools/pack_sobol.py new-joe-kuo-6.21201

The argument is the table of that name (lines of `d s a m_1 ... m_s`), or an .npz with the arrays
`poly` (the polynomials, all coefficients) and `vinit` (the m_i).
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

from tritorch.quasirandom import _primitive

ROOT = pathlib.Path(__file__).parent.parent


def read(path: str) -> tuple[list[int], list[list[int]]]:
    """The polynomials and the first numbers of dims 2, 3, ..."""
    if path.endswith(".npz"):
        table = np.load(path)
        polynomials = [int(p) for p in table["poly"][1:]]
        rows = table["vinit"][1:].tolist()
        return polynomials, [row[: p.bit_length() - 1] for p, row in zip(polynomials, rows)]
    lines = [[*map(int, line.split())] for line in pathlib.Path(path).read_text().split("\n")[1:]]
    lines = [line for line in lines if line]
    return [(1 << s) + (a << 1) + 1 for _, s, a, *_ in lines], [line[3:] for line in lines]


polynomials, numbers = read(sys.argv[1])
bits: list[int] = []
for row in numbers:  # m_i is odd and below 2^i: its other bits, lowest first
    for i, m in enumerate(row):
        assert m & 1 and m < 2 << i
        bits += [m >> k & 1 for k in range(1, i + 1)]
primitive = (p for degree in range(1, 19) for p in _primitive(degree).tolist())
if any(p != q for p, q in zip(polynomials, primitive)):
    sys.exit("these are not the primitive polynomials in order, which quasirandom.py counts on")
np.savez_compressed(ROOT / "tritorch" / "ops" / "random" / "sobol.npz", bits=np.packbits(bits))
print(f"{len(polynomials) + 1} dims, {len(bits)} bits")
