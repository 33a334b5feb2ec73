"""The charts as matplotlib figures, drawn from finished numbers. No pyplot: nothing global is left behind.

Everything is `INK` (the page's text colour), a colour of the palette with its hatch, or hollow.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.reports import units
from ftprof.reports.palette import FAINT, INK, PAPER, Paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 6.4
ROW_IN = 0.46
FONT_PT = 9.5
LABELLED_SHARE = 0.11
"""Of the longest bar: a narrower part has no room for its letter and share."""
LABEL_STEP_PT = 11.0
LABEL_HEIGHT, LABEL_WIDTH = 0.065, 0.45
"""A label beside a point: the step from line to line, and what it takes of the height and width of a roofline."""
TICK_SHARE = 0.075
"""Of an axis: two labels nearer than this run into each other."""
# matplotlib types the names as literals, and only in its newer versions.
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, translated and read aloud
    "svg.hashsalt": "ftprof",  # the same ids for the same chart
    "text.parse_math": False,  # "$" in a name is a dollar sign
    "font.size": FONT_PT,
    "hatch.linewidth": 1.1,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """One stacked bar: its label, what stands at its end, and its parts by class, in the unit of the axis."""

    label: str
    end: str
    parts: dict[str, float]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Before and after of one phase; both as (median, low, high) relative to the median before, and both as texts."""

    label: str
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    text: str


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """One fix: predicted and measured speed-up as (value, low, high)."""

    label: str
    predicted: tuple[float, float, float] | None
    measured: tuple[float, float, float] | None
    kept: bool


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One phase under the roofs: FLOP per byte and FLOP/s."""

    label: str
    letter: str
    intensity: float
    flops_per_s: float


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """Measured limits: FLOP/s by name (dtype) and bytes/s by name (working set)."""

    flops_per_s: dict[str, float]
    bytes_per_s: dict[str, float]


def to_svg(draw: Callable[[], Figure]) -> str:
    """What `draw` draws as matplotlib's SVG, the same bytes for the same figure.

    The settings must hold while the figure is made, not only while it is saved: texts read them when they are made.
    """
    import matplotlib

    buffer = io.StringIO()
    nothing: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # A name in a script that the measuring font lacks is drawn by the reader's own font.
        warnings.simplefilter("ignore", UserWarning)
        draw().savefig(buffer, format="svg", metadata=nothing, bbox_inches="tight", pad_inches=0.04)
    return buffer.getvalue()


def blank(height_in: float) -> tuple[Figure, Axes]:
    """An empty figure as wide as the page's column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, figure.add_subplot()


def row_labels(axes: Axes, labels: Sequence[str]) -> None:
    """One row a label, from the top."""
    axes.set_yticks(range(len(labels)), list(labels))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(labels) - 0.4, -0.6)


def bar_style(paint: Paint) -> dict[str, Any]:
    """Fill, edge and hatch of a paint."""
    # Hollow means "the colour of the text"; hatch lines take the colour of the edge.
    fill = paint.light or "none"
    return {"facecolor": fill, "edgecolor": PAPER if paint.light else INK, "hatch": paint.hatch, "linewidth": 0.9}


def stacks(bars: Sequence[Stack], paints: dict[str, Paint], axis: str, *, percent: bool) -> Figure:
    """Stacked horizontal bars; the wider parts carry their letter and share above them."""
    figure, axes = blank(ROW_IN * len(bars) + 1.0)
    longest = max(sum(bar.parts.values()) for bar in bars)
    for row, bar in enumerate(bars):
        _stack(axes, row, bar, paints, longest)
        axes.text(sum(bar.parts.values()) + 0.012 * longest, row, bar.end, va="center")
    row_labels(axes, [bar.label for bar in bars])
    axes.set_xlim(0, longest * 1.16)
    axes.set_xlabel(axis)
    if percent:
        axes.set_xticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    seen = {key for bar in bars for key, value in bar.parts.items() if value > 0}
    legend(figure, {key: paint for key, paint in paints.items() if key in seen})
    return figure


def _stack(axes: Axes, row: int, bar: Stack, paints: dict[str, Paint], longest: float) -> None:
    left = 0.0
    for key, value in bar.parts.items():
        if value > 0:
            axes.barh(row, value, left=left, height=0.42, **bar_style(paints[key]))
        if value >= LABELLED_SHARE * longest and paints[key].letter:
            share = units.percent(value / sum(bar.parts.values()))
            axes.text(left, row - 0.25, f"{paints[key].letter} {share}", va="bottom", fontsize=FONT_PT - 1.5)
        left += value


def legend(figure: Figure, paints: dict[str, Paint]) -> None:
    """Paints with their names above the chart."""
    from matplotlib.patches import Patch

    handles = [Patch(label=f"{paint.letter} {paint.label}".strip(), **bar_style(paint)) for paint in paints.values()]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=6, frameon=False, handlelength=1.6, columnspacing=1.1
    )


def before_after(pairs: Sequence[Pair]) -> Figure:
    """For each phase a hollow bar before and a filled bar after, with 95 % intervals, in percent of before."""
    figure, axes = blank(0.62 * len(pairs) + 0.8)
    after = Paint(letter="", label="after", light="#3c9adb")
    for row, pair in enumerate(pairs):
        for offset, times, paint in ((-0.17, pair.before, Paint(letter="", label="before")), (0.17, pair.after, after)):
            axes.barh(row + offset, 100 * times[0], height=0.3, **bar_style(paint))
            axes.plot([100 * times[1], 100 * times[2]], [row + offset] * 2, color=INK, linewidth=1.6)
        end = 100 * max(pair.before[2], pair.after[2])
        axes.text(end + 2, row, pair.text, va="center")
    row_labels(axes, [pair.label for pair in pairs])
    longest = 100 * max(max(pair.before[2], pair.after[2]) for pair in pairs)
    axes.set_xlim(0, longest * 1.36)
    axes.set_xticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    axes.set_xlabel("Time, in percent of before; bars: median, lines: 95% interval")
    legend(figure, {"before": Paint(letter="", label="before"), "after": after})
    return figure


def fixes(speeds: Sequence[Speed]) -> Figure:
    """For each fix the predicted range (hollow) and the measured interval (dot and line) on a log scale."""
    figure, axes = blank(ROW_IN * len(speeds) + 0.9)
    for row, speed in enumerate(speeds):
        if speed.predicted:
            _, low, high = speed.predicted
            axes.barh(row, high - low, left=low, height=0.36, facecolor="none", edgecolor=INK, linewidth=0.9)
        if speed.measured:
            value, low, high = speed.measured
            colour = "#3c9adb" if speed.kept else INK
            axes.plot([low, high], [row, row], color=colour, linewidth=3)
            axes.plot([value], [row], marker="o" if speed.kept else "D", color=colour, markersize=7)
    axes.axvline(1, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    row_labels(axes, [speed.label for speed in speeds])
    _speed_axis(axes, [value for speed in speeds for span in (speed.predicted, speed.measured) for value in span or ()])
    _speed_legend(figure)
    return figure


def _speed_axis(axes: Axes, values: Sequence[float]) -> None:
    low, high = min([*values, 1.0]) / 1.08, max([*values, 1.0]) * 1.08
    steps = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100)
    kept: list[float] = [1]
    room = TICK_SHARE * math.log(high / low)
    for step in sorted((step for step in steps if low <= step <= high), key=lambda step: abs(math.log(step))):
        if all(abs(math.log(step / other)) >= room for other in kept):
            kept.append(step)
    kept.sort()
    axes.set_xscale("log")
    axes.set_xticks(kept, [f"{step:g}x" for step in kept])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
    axes.set_xlabel("Speed-up of the objective (right of 1x is faster)")


def _speed_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(label="predicted, 80% interval", facecolor="none", edgecolor=INK),
        Line2D([], [], label="measured, kept", color="#3c9adb", marker="o", linewidth=3, markersize=7),
        Line2D([], [], label="measured, not kept", color=INK, marker="D", linewidth=3, markersize=7),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False)


def roofline(points: Sequence[Point], roofs: Roofs) -> Figure:
    """Phases under the measured roofs; both axes are logarithmic."""
    figure, axes = blank(3.5)
    peak, fastest = max(roofs.flops_per_s.values()), max(roofs.bytes_per_s.values())
    slowest = min(roofs.bytes_per_s.values())
    intensities = [point.intensity for point in points]
    low = min([*intensities, 0.5 * min(roofs.flops_per_s.values()) / fastest]) / 2
    high = max([*intensities, peak / slowest]) * 4
    _roofs(axes, roofs, low, high)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    floor = min([*(point.flops_per_s for point in points), low * slowest])
    axes.set_ylim(floor / 4, peak * 2.2)
    _points(axes, points)
    axes.set_xlabel("Arithmetic intensity, FLOP per byte")
    axes.set_ylabel("GFLOP/s")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


def _roofs(axes: Axes, roofs: Roofs, low: float, high: float) -> None:
    peak = max(roofs.flops_per_s.values())
    main_memory = min(roofs.bytes_per_s.values())
    for label, limit in roofs.flops_per_s.items():
        start = max(limit / max(roofs.bytes_per_s.values()), low)
        axes.plot([start, high], [limit, limit], color=INK, linewidth=1.3)
        axes.text(high, limit * 1.06, f"{label}: {units.rate(limit, 'FLOP')} ", ha="right", va="bottom", fontsize=8.5)
    for label, limit in roofs.bytes_per_s.items():
        dashes = "solid" if limit == main_memory else (0, (4, 2))
        end = min(peak / limit, high)
        text = f"reading {label}: {units.rate(limit, 'B')}"
        axes.plot([low, end], [low * limit, end * limit], color=INK, linewidth=1.3, linestyle=dashes, label=text)


def _points(axes: Axes, points: Sequence[Point]) -> None:
    paints = {"prefill": ("o", "#3c9adb"), "forward": ("o", "#3c9adb"), "decode": ("^", "#c37f51")}
    for point, level in zip(points, _levels(axes, points), strict=True):
        marker, colour = paints.get(point.letter, ("s", FAINT))
        axes.plot([point.intensity], [point.flops_per_s], marker=marker, color=colour, markersize=9, linestyle="none")
        # The line joins what had to move away from its point.
        joined = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.8} if level else None
        axes.annotate(
            point.label,
            (point.intensity, point.flops_per_s),
            xytext=(9, -4 - LABEL_STEP_PT * level),
            textcoords="offset points",
            va="top",
            fontsize=8.5,
            arrowprops=joined,
        )


def _levels(axes: Axes, points: Sequence[Point]) -> list[int]:
    """How many lines each label is moved down, so that no two of them lie on each other."""
    (left, right), (bottom, top) = (map(math.log10, limits) for limits in (axes.get_xlim(), axes.get_ylim()))
    width, height = right - left, top - bottom
    taken: list[tuple[float, float]] = []
    levels = {}
    for place in sorted(range(len(points)), key=lambda place: -points[place].flops_per_s):
        across = (math.log10(points[place].intensity) - left) / width
        down = (math.log10(points[place].flops_per_s) - bottom) / height
        level = 0
        while any(
            abs(across - other_across) < LABEL_WIDTH and abs(down - level * LABEL_HEIGHT - other_down) < LABEL_HEIGHT
            for other_across, other_down in taken
        ):
            level += 1
        taken.append((across, down - level * LABEL_HEIGHT))
        levels[place] = level
    return [levels[place] for place in range(len(points))]
