"""What devices give at best, from their makers' data sheets, dense: a share of the roofline is a
share of that."""

from __future__ import annotations

from typing import NamedTuple


class Peak(NamedTuple):
    """GB/s of memory, and TFLOP/s by type of element."""

    bandwidth: float
    rates: dict[str, float]

    def rate(self, dtype: str, tf32: bool) -> float | None:
        """TFLOP/s of a type; tf32: whether float32 is multiplied so."""
        name = dtype.rpartition(".")[2]
        return self.rates.get("tf32" if tf32 and name == "float32" else name)


def _peak(
    bandwidth: float,
    float32: float,
    tf32: float,
    half: float,
    float8: float = 0,
    float64: float = 0,
) -> Peak:
    rates = {"float32": float32, "tf32": tf32, "float16": half, "bfloat16": half}
    if float8:
        rates |= {"float8_e4m3fn": float8, "float8_e5m2": float8}
    if float64:
        rates["float64"] = float64
    return Peak(bandwidth, rates)


# By what the driver calls them; the first one whose name is part of it.
PEAKS = {
    "H200": _peak(4800, 67, 494, 989, 1979, 67),
    "H100 PCIe": _peak(2000, 51, 378, 756, 1513, 51),
    "H100 NVL": _peak(3900, 60, 417, 835, 1671, 60),
    "H100": _peak(3350, 67, 494, 989, 1979, 67),
    "B200": _peak(8000, 80, 1100, 2250, 4500, 40),
    "A100-SXM4-40GB": _peak(1555, 19.5, 156, 312, 0, 19.5),
    "A100-PCIE-40GB": _peak(1555, 19.5, 156, 312, 0, 19.5),
    "A100": _peak(2039, 19.5, 156, 312, 0, 19.5),
    "A10G": _peak(600, 31.2, 35, 70),
    "L40S": _peak(864, 91.6, 183, 362, 733),
    "L4": _peak(300, 30.3, 60, 121, 242),
    "RTX 4090": _peak(1008, 82.6, 82.6, 165, 330),
    "RTX 3090": _peak(936, 35.6, 35.6, 71),
    "V100": _peak(900, 15.7, 15.7, 125, 0, 7.8),
    "T4": _peak(320, 8.1, 8.1, 65),
}  # fmt: skip


def peak_of(name: str) -> Peak | None:
    """The peaks of a device; None if they are not known."""
    return next((peak for part, peak in PEAKS.items() if part in name), None)
