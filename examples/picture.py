"""Pictures without a plotting library: charts, point clouds and image grids, written as PNG."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Image = np.ndarray[Any, np.dtype[np.uint8]]  # height, width, 3

INK, GREY, FAINT = (40, 44, 52), (110, 116, 128), (228, 231, 236)
PALE, STRONG = (168, 199, 240), (24, 95, 190)

# Five by seven pixels a letter; those in _HANGING stand two pixels lower.
_ART = """
0     1     2     3     4     5     6     7     8     9     .     -     +     :     (     )
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###. ..... ..... ..... ..... ...#. .#...
#...# .##.. #...# #...# ..##. #.... #...# ....# #...# #...# ..... ..... ..#.. ..#.. ..#.. ..#..
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...# ..... ..... ..#.. ..#.. .#... ...#.
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .#### ..... ##### ##### ..... .#... ...#.
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....# ..... ..... ..#.. ..#.. .#... ...#.
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# #...# ..... ..... ..#.. ..#.. ..#.. ..#..
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###. ..#.. ..... ..... ..... ...#. .#...

a     b     c     d     e     f     g     h     i     j     k     l     m     n     /     _
..... #.... ..... ....# ..... ..##. .#### #.... ..#.. ...#. #.... .##.. ..... ..... ....# .....
..... #.... ..... ....# ..... .#..# #...# #.... ..... ..... #.... ..#.. ..... ..... ....# .....
.###. ####. .###. .#### .###. .#... #...# ####. .##.. ..##. #..#. ..#.. ##.#. ####. ...#. .....
....# #...# #...# #...# #...# ####. #...# #...# ..#.. ...#. #.#.. ..#.. #.#.# #...# ..#.. .....
.#### #...# #.... #...# ##### .#... .#### #...# ..#.. ...#. ##... ..#.. #.#.# #...# .#... .....
#...# #...# #...# #...# #.... .#... ....# #...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #.... .....
.#### ####. .###. .#### .###. .#... .###. #...# .###. .##.. #..#. .###. #.#.# #...# #.... #####

o     p     q     r     s     t     u     v     w     x     y     z     ,     %     =     M
..... ####. .#### ..... ..... .#... ..... ..... ..... ..... #...# ..... ..... ##..# ..... #...#
..... #...# #...# ..... ..... .#... ..... ..... ..... ..... #...# ..... ..... ##.#. ..... ##.##
.###. #...# #...# #.##. .#### ####. #...# #...# #...# #...# #...# ##### ..... ...#. ##### #.#.#
#...# #...# #...# ##..# #.... .#... #...# #...# #.#.# .#.#. .#### ...#. ..... ..#.. ..... #...#
#...# ####. .#### #.... .###. .#... #...# #...# #.#.# ..#.. ....# ..#.. ..#.. .#... ##### #...#
#...# #.... ....# #.... ....# .#..# #...# .#.#. #.#.# .#.#. ....# .#... ..#.. .#.## ..... #...#
.###. #.... ....# #.... ####. ..##. .#### ..#.. .#.#. #...# .###. ##### .#... #..## ..... #...#
"""
_HANGING = frozenset("gpqy")


def _font() -> dict[str, Any]:
    glyphs = {" ": np.zeros((7, 5), bool)}
    for block in _ART.strip().split("\n\n"):
        names, *rows = (line.split() for line in block.split("\n"))
        for k, name in enumerate(names):
            glyphs[name] = np.array([[dot == "#" for dot in row[k]] for row in rows])
    return glyphs


_FONT = _font()


def write_png(path: str | Path, image: Image) -> None:
    """An RGB image of bytes as a PNG file."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row starts with its filter: none
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    Path(path).write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def text(
    image: Image,
    x: int,
    y: int,
    words: str,
    colour: Sequence[int] = INK,
    scale: int = 2,
    align: float = 0,
) -> None:
    """Writes words with their top at y; align moves them left by that share of their width."""
    x -= round(align * (6 * len(words) - 1) * scale)
    for letter in words:
        glyph = _FONT.get(letter, _FONT.get(letter.lower(), _FONT[" "]))
        top = y + (2 * scale if letter in _HANGING else 0)
        for row, column in np.argwhere(glyph):
            low, left = top + row * scale, x + column * scale
            image[low : low + scale, left : left + scale] = colour
        x += 6 * scale


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between low and high: multiples of 1, 2 or 5 times a power of ten."""
    raw = max(high - low, 1e-12) / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float, step: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


class Axes:
    """A white picture with a frame, grid lines and numbers; points are given in data's units."""

    MARGINS = (96, 28, 56, 64)  # left, right, top, bottom
    SMOOTH = 3  # lines are drawn this much larger, then averaged

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        size: tuple[int, int] = (960, 540),
        title: str = "",
        x_label: str = "",
    ) -> None:
        width, height = size
        left, right, top, bottom = self.MARGINS
        self.x_range, self.y_range = _widened(x_range), _widened(y_range)
        self.box = (left, top, width - right, height - bottom)
        self.image: Image = np.full((height, width, 3), 255, np.uint8)
        self._grid()
        text(self.image, left, 18, title)
        text(self.image, (left + width - right) // 2, height - 28, x_label, GREY, align=0.5)

    def _grid(self) -> None:
        left, top, right, bottom = self.box
        marks = ticks(*self.x_range, 8)
        for value in marks:
            x = round(float(self._x(value)))
            self.image[top:bottom, x] = FAINT
            self.image[bottom : bottom + 6, x] = INK
            text(self.image, x, bottom + 12, _number(value, _step(marks)), align=0.5)
        marks = ticks(*self.y_range, 6)
        for value in marks:
            y = round(float(self._y(value)))
            self.image[y, left:right] = FAINT
            self.image[y, left - 6 : left] = INK
            text(self.image, left - 12, y - 7, _number(value, _step(marks)), align=1)
        self.image[bottom, left:right] = INK
        self.image[top : bottom + 1, left] = INK

    def _x(self, value: Any) -> Any:
        left, _, right, _ = self.box
        low, high = self.x_range
        return left + (np.asarray(value) - low) / (high - low) * (right - 1 - left)

    def _y(self, value: Any) -> Any:
        _, top, _, bottom = self.box
        low, high = self.y_range
        return bottom - (np.asarray(value) - low) / (high - low) * (bottom - top)

    def _stamp(self, x: Any, y: Any, colour: Sequence[int], radius: float, opacity: float) -> None:
        """Discs at positions in pixels, with soft edges, laid over the picture once."""
        left, top, right, bottom = self.box
        n = self.SMOOTH
        height, width = (bottom - top + 1) * n, (right - left + 1) * n
        inked = np.zeros((height, width), bool)
        rows = np.round((y - top + 0.5) * n).astype(int)
        columns = np.round((x - left + 0.5) * n).astype(int)
        reach = math.ceil(radius * n)
        for dy in range(-reach, reach + 1):
            for dx in range(-reach, reach + 1):
                if dx * dx + dy * dy <= (radius * n) ** 2:
                    r, c = rows + dy, columns + dx
                    inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
                    inked[r[inside], c[inside]] = True
        share = inked.reshape(height // n, n, width // n, n).mean((1, 3))[..., None] * opacity
        part = self.image[top : bottom + 1, left : right + 1]
        part[:] = np.round(part * (1 - share) + np.array(colour) * share)

    def line(
        self,
        x: Any,
        y: Any,
        colour: Sequence[int] = STRONG,
        radius: float = 1.1,
        opacity: float = 1,
    ) -> None:
        """A line through points; a gap where a value is not finite."""
        px, py = self._x(x), self._y(y)
        xs, ys = [], []
        for k in range(len(px) - 1):
            ends = px[k], px[k + 1], py[k], py[k + 1]
            if np.isfinite(ends).all():
                parts = max(2, math.ceil(math.hypot(ends[1] - ends[0], ends[3] - ends[2]) * 3))
                xs.append(np.linspace(ends[0], ends[1], parts))
                ys.append(np.linspace(ends[2], ends[3], parts))
        if xs:
            self._stamp(np.concatenate(xs), np.concatenate(ys), colour, radius, opacity)

    def points(
        self,
        x: Any,
        y: Any,
        colour: Sequence[int] = STRONG,
        radius: float = 1.6,
        opacity: float = 1,
    ) -> None:
        """A disc at each point."""
        self._stamp(self._x(x), self._y(y), colour, radius, opacity)


def _widened(given: tuple[float, float]) -> tuple[float, float]:
    low, high = given
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _step(marks: list[float]) -> float:
    return marks[1] - marks[0] if len(marks) > 1 else abs(marks[0]) or 1


def curve(path: str | Path, values: Sequence[float], title: str) -> None:
    """Values by step, pale, and their running average, strong."""
    y = np.array(values, float)
    x = np.arange(1, len(y) + 1)
    finite = y[np.isfinite(y)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    room = 0.05 * (high - low)
    axes = Axes((0, len(y)), (low - room, high + room), title=title, x_label="step")
    smooth = running_average(y)
    axes.line(x, y, PALE, 0.8)
    axes.line(x, smooth, STRONG, 1.3)
    if len(y):
        text(axes.image, axes.box[2], 18, f"last {smooth[-1]:.4g}", STRONG, align=1)
    write_png(path, axes.image)


def running_average(values: Any, share: float = 1 / 40) -> Any:
    """Averages of the finite values around each, under a bell as wide as `share` of all."""
    values = np.asarray(values, float)
    if not len(values):
        return values
    width = max(len(values) * share / 2, 1e-3)
    reach = min(math.ceil(3 * width), len(values) - 1)
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    finite = np.isfinite(values)
    weighed = lambda x: np.convolve(x, bell)[reach : reach + len(values)]
    return weighed(np.where(finite, values, 0)) / np.maximum(weighed(finite * 1.0), 1e-300)


def grid(path: str | Path, images: Any, columns: int, scale: int = 3) -> None:
    """Images (n, channels, height, width) of numbers from 0 to 1, side by side."""
    images = np.asarray(images, np.float32)
    n, _, height, width = images.shape
    rows = -(-n // columns)
    sheet = np.ones((rows * (height + 1) + 1, columns * (width + 1) + 1, 3), np.float32)
    for k in range(n):
        top, left = (k // columns) * (height + 1) + 1, (k % columns) * (width + 1) + 1
        sheet[top : top + height, left : left + width] = images[k].transpose(1, 2, 0)
    sheet = np.round(sheet.clip(0, 1) * 255).astype(np.uint8)
    write_png(path, sheet.repeat(scale, 0).repeat(scale, 1))
