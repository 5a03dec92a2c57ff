"""A run as a roofline: a picture (PNG), and one page that needs nothing else (HTML with SVG).

Both axes are logarithmic: operations a byte and operations a second.  A benchmark is under a
roof of two parts: the measured bandwidth of copies times its operations a byte, and the measured
rate of matrix products in its type.
"""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any, NamedTuple

from tritorch.bench import goals, report as text
from tritorch.bench.contestants import OURS

COLOURS = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
    "#7f7f7f", "#bcbd22",
]  # fmt: skip
WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 150, 30, 60
CLOSE = 0.8  # peaks so near to each other are drawn as one roof


class Point(NamedTuple):
    """One benchmark: operations a byte, TFLOP/s, and what to call it."""

    key: str
    family: str
    intensity: float
    rate: float
    line: str


class Roof(NamedTuple):
    """One type's roof: GB/s to the left of its corner, TFLOP/s to the right."""

    name: str
    bandwidth: float
    peak: float

    @property
    def label(self) -> str:
        """Its name and its height."""
        return (
            f"{self.name} {self.peak:.0f}" if self.peak >= 100 else f"{self.name} {self.peak:.3g}"
        )

    @property
    def corner(self) -> float:
        """The operations a byte at which both are the same."""
        return self.peak * 1e3 / self.bandwidth

    def height(self, intensity: float) -> float:
        """TFLOP/s at most."""
        return min(self.peak, intensity * self.bandwidth / 1e3)


def points(report: dict[str, Any]) -> list[Point]:
    """The benchmarks whose bytes and operations are counted.

    Operations of kernels that are not matrix products are not counted.  These stand to the left,
    one column a family, as high under the roof as their share of the bandwidth is.
    """
    found = []
    columns: dict[str, float] = {}
    for key, result in report["results"].items():
        row = result.get("contestants", {}).get(OURS, {})
        if "median_us" not in row or not result.get("bytes") or result.get("clock") != "device":
            continue
        intensity = result["flops"] / result["bytes"]
        if not intensity:
            intensity = columns.setdefault(result["family"], 0.15 * 1.3 ** len(columns))
        rate = intensity * result["bytes"] / row["median_us"] / 1e6
        line = text.line(key, result).strip()
        found.append(Point(key, result["family"], intensity, rate, line))
    return found


def roofs(report: dict[str, Any]) -> list[Roof]:
    """One for each type whose peak was measured, the highest first; those close together as one."""
    ceilings = report.get("ceilings") or {}
    copy = ceilings.get("copy_gb_s")
    if not copy:
        return []
    rates = ceilings.get("matmul_tflop_s", {}) or {"copies": copy / 4e3}
    found: list[Roof] = []
    for name, peak in sorted(rates.items(), key=lambda item: -item[1]):
        if found and peak > CLOSE * found[-1].peak:
            found[-1] = found[-1]._replace(name=f"{found[-1].name}, {name}")
        else:
            found.append(Roof(name, copy, peak))
    return found


class Plane:
    """From operations a byte and TFLOP/s to places in a picture, over whole powers of ten."""

    def __init__(self, shown: list[Point], tops: list[Roof]) -> None:
        xs = [p.intensity for p in shown] + [roof.corner for roof in tops] or [1.0]
        ys = [p.rate for p in shown] + [roof.peak for roof in tops] or [1.0]
        self.x = (math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)) + 0.3))
        self.y = (math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 0.1))

    def at(self, intensity: float, rate: float) -> tuple[float, float]:
        """Pixels from the left and from the top."""
        across = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(rate) - self.y[0]) / (self.y[1] - self.y[0])
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )

    def outline(self, roof: Roof) -> list[tuple[float, float]]:
        """A roof's line: from where it enters the picture over its corner to the right."""
        low, high = 10.0 ** self.x[0], 10.0 ** self.x[1]
        start = max(low, 10.0 ** self.y[0] * 1e3 / roof.bandwidth)
        corner = min(max(roof.corner, start), high)
        return [(x, roof.height(x)) for x in dict.fromkeys((start, corner, high))]


def colours(shown: list[Point]) -> dict[str, str]:
    """One a family, in the order in which they come."""
    families = dict.fromkeys(point.family for point in shown)
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(families)}


def svg(report: dict[str, Any]) -> str:
    """The picture as SVG."""
    shown, tops = points(report), roofs(report)
    plane, inks = Plane(shown, tops), colours(shown)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="roofline">']
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for power in range(plane.x[0], plane.x[1] + 1):
        x, _ = plane.at(10.0**power, 10.0 ** plane.y[0])
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="x" x="{x:.1f}" y="{bottom + 20}">{_power(power)}</text>')
    for power in range(plane.y[0], plane.y[1] + 1):
        _, y = plane.at(10.0 ** plane.x[0], 10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="y" x="{LEFT - 8}" y="{y + 4:.1f}">{_power(power)}</text>')
    parts.append(f'<text class="x" x="{(LEFT + right) / 2}" y="{HEIGHT - 12}">'
                 "operations a byte</text>")  # fmt: skip
    parts.append(f'<text class="y" transform="translate(18 {TOP + 90}) rotate(-90)">'
                 "TFLOP/s</text>")  # fmt: skip
    for roof in tops:
        line = [plane.at(*corner) for corner in plane.outline(roof)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'<polyline class="roof" points="{path}"/>')
        x, y = line[-1]
        parts.append(f'<text class="name" x="{x + 6:.1f}" y="{y + 4:.1f}">'
                     f"{html.escape(roof.label)}</text>")  # fmt: skip
    for point in shown:
        x, y = plane.at(point.intensity, point.rate)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{inks[point.family]}">'
                     f"<title>{html.escape(point.line)}</title></circle>")  # fmt: skip
    for i, (family, ink) in enumerate(inks.items()):
        y = bottom - 18 * (len(inks) - i) + 6
        parts.append(f'<circle cx="{right + 18}" cy="{y}" r="4" fill="{ink}"/>')
        parts.append(f'<text class="name" x="{right + 28}" y="{y + 4}">{family}</text>')
    return "\n".join([*parts, "</svg>"])


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}"


STYLE = """
:root { color-scheme: light dark; --ink: #22262c; --soft: #8a919c; --line: #dfe3e8; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #949ca8; --line: #3a4048; --back: #181b1f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 1100px; margin: 2em auto; padding: 0 1em; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--line); } .roof { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.x { text-anchor: middle; } .y { text-anchor: end; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }
td, th { padding: 2px 10px; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
td:first-child, th:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; }
p.soft, .failed { color: var(--soft); }
"""


def _row(cells: list[str], tag: str = "td", kind: str = "") -> str:
    inside = "".join(f"<{tag}>{cell}</{tag}>" for cell in cells)
    return f"<tr{f' class={kind}' if kind else ''}>{inside}</tr>"


def results_table(report: dict[str, Any]) -> str:
    """All results, family by family."""
    parts: list[str] = []
    families = dict.fromkeys(result["family"] for result in report["results"].values())
    for family in families:
        rows = {k: r for k, r in report["results"].items() if r["family"] == family}
        peers = list(dict.fromkeys(n for r in rows.values() for n in r.get("ratios", {})))
        head = ["benchmark", "time", "spread", "rate", "of ceiling"]
        parts.append(f"<h2>{html.escape(family)}</h2><div class=scroll><table>")
        parts.append(_row([*head, *(f"times {html.escape(p)}" for p in peers)], "th"))
        for key, result in rows.items():
            name = html.escape(key.split("/", 1)[1])
            ours = result.get("contestants", {}).get(OURS, {})
            if "median_us" not in ours:
                why = html.escape(str(result.get("error") or result.get("skipped") or "no result"))
                parts.append(f'<tr class=failed><td>{name}</td><td colspan="{4 + len(peers)}">'
                             f"{why}</td></tr>")  # fmt: skip
                continue
            share = f"{result['share']:.0%}" if "share" in result else ""
            cells = [name, text.duration(ours["median_us"]), f"{text.spread(ours) / 2:.0%}",
                     text.rate(result, ours), share]  # fmt: skip
            ratios = result.get("ratios", {})
            cells += [f"{ratios[p]:.2f}" if p in ratios else "" for p in peers]
            parts.append(_row(cells))
        parts.append("</table></div>")
    return "\n".join(parts)


def kernels_table(report: dict[str, Any]) -> str:
    """What compiled kernels take, if the run has that."""
    found = report.get("kernels")
    if not found or not found["kernels"]:
        return ""
    head = ["kernel", "types", "target", "registers", "stack", "spilled", "shared", "warps",
            "instructions", "first of"]  # fmt: skip
    parts = ["<h2>kernels</h2><div class=scroll><table>", _row(head, "th")]
    for row in found["kernels"]:
        for target, taken in row["compiled"].items():
            cells = [row["kernel"], row["types"], f"sm_{target}"]
            if "error" in taken:
                cells += [taken["error"][:80], *[""] * 5]
            else:
                cells += [str(taken[key]) for key in ("registers", "stack", "spilled", "shared",
                                                      "warps")]  # fmt: skip
                cells += [", ".join(taken["instructions"])]
            parts.append(_row([html.escape(cell) for cell in [*cells, row["benchmark"]]]))
    return "\n".join([*parts, "</table></div>"])


def page(report: dict[str, Any]) -> str:
    """The whole page."""
    known = goals.measured(report)
    reached = ""
    if known:
        rows = [
            _row([html.escape(name), html.escape(row["what"]), html.escape(row["target"]),
                  goals.figure(row), "" if "met" not in row else "yes" if row["met"] else "no"])
            for name, row in goals.table(known).items()
        ]  # fmt: skip
        head = _row(["goal", "figure", "target", "measured", "met"], "th")
        reached = f"<h2>goals</h2><div class=scroll><table>{head}{''.join(rows)}</table></div>"
    where = "<br>".join(map(html.escape, text.header(report).split("\n")))
    machine = report["machine"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>tritorch on {html.escape(str(place(report)))}</title>",
        f"<style>{STYLE}</style></head><body>",
        "<h1>tritorch, measured</h1>",
        f"<p>{where}<br>commit {html.escape(machine['commit'])}, {machine['date']}</p>",
        svg(report),
        "<p class=soft>Kernels that are no matrix products stand to the left, a column for each",
        "family, as high under the roof as their share of the bandwidth is. Ratios above one:",
        "tritorch is faster. Hover over a point for its figures.</p>",
        reached,
        results_table(report),
        kernels_table(report),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def place(report: dict[str, Any]) -> str:
    """The GPU, or the processor."""
    return report["machine"]["gpu"] or report["machine"]["cpu"]


def png(path: Path, report: dict[str, Any]) -> None:
    """The picture as PNG."""
    from tritorch.examples import picture  # type: ignore[import-untyped, unused-ignore]

    shown, tops = points(report), roofs(report)
    plane, inks = Plane(shown, tops), colours(shown)
    log = math.log10

    class Logarithmic(picture.Axes):
        """Axes whose numbers are powers of ten."""

        def _grid(self) -> None:
            left, top, right, bottom = self.box
            for power in range(plane.x[0], plane.x[1] + 1):
                x = round(float(self._x(power)))
                self.image[top:bottom, x] = picture.FAINT
                picture.text(self.image, x, bottom + 12, _power(power), align=0.5)
            for power in range(plane.y[0], plane.y[1] + 1):
                y = round(float(self._y(power)))
                self.image[y, left:right] = picture.FAINT
                picture.text(self.image, left - 12, y - 7, _power(power), align=1)
            self.image[bottom, left:right] = picture.INK
            self.image[top : bottom + 1, left] = picture.INK

    axes = Logarithmic(
        plane.x, plane.y, size=(1200, 720), title=f"tflop/s, {place(report)}".lower(),
        x_label="operations a byte",
    )  # fmt: skip
    for roof in tops:
        line = [(log(x), log(y)) for x, y in plane.outline(roof)]
        axes.line([x for x, _ in line], [y for _, y in line], picture.INK, 1.2)
        end = float(axes._y(line[-1][1]))
        picture.text(axes.image, axes.box[2], round(end) - 20, roof.label, picture.GREY, align=1)
    left, top, *_ = axes.box
    for i, (family, ink) in enumerate(inks.items()):
        colour = tuple(int(ink[k : k + 2], 16) for k in (1, 3, 5))
        mine = [point for point in shown if point.family == family]
        axes.points([log(p.intensity) for p in mine], [log(p.rate) for p in mine], colour, 3.5)
        picture.text(axes.image, left + 16, top + 14 + 22 * i, family, colour)
    picture.write_png(path, axes.image)


def draw(folder: Path, report: dict[str, Any]) -> list[Path]:
    """Writes roofline.png and roofline.html."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, whole = folder / "roofline.png", folder / "roofline.html"
    png(picture, report)
    whole.write_text(page(report))
    return [picture, whole]
