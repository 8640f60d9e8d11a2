"""Plots as SVG text, without a library."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#2563a8", "#d97706", "#15803d", "#9333ea", "#be123c"]
LEFT, RIGHT, TOP, WIDTH = 120, 70, 74, 860
BAR, GAP = 16, 14
STYLE = "font-family='system-ui, sans-serif' font-size='13' fill='#1f2937'"


def text(x, y, content, **attributes):
    extra = "".join(f" {key.replace('_', '-')}='{value}'" for key, value in attributes.items())
    return f"<text x='{x:.1f}' y='{y:.1f}'{extra}>{escape(content)}</text>"


def aim_mark(x, y):
    return f"<path d='M{x:.1f} {y}v{BAR}' stroke='#111827' stroke-width='2.5'/>"


def ratio_label(value):
    return f"{value:.0f}x" if value >= 10 else f"{value:.1f}x"


def short(model):
    """A name without the part that all share: a legend has little room."""
    return model.replace("-instruct", "")


class Axis:
    """A logarithmic axis that holds 1 and all values."""

    def __init__(self, values):
        self.low = math.floor(math.log10(min([1, *values])) * 2) / 2
        self.high = math.ceil(math.log10(max([2, *values])) * 2) / 2

    def x(self, value):
        return LEFT + (math.log10(value) - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        candidates = [step * 10 ** power for power in range(-3, 5) for step in (1, 2, 5)]
        return [value for value in candidates if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9]


def ratios(rows, title):
    """Bars of the ratios {model: rows of report.rows_against}, grouped by workload; a mark shows each aim."""
    usable = {model: {row["workload"]: row for row in model_rows if row["ratio"] > 0}
              for model, model_rows in rows.items()}
    workloads = list(dict.fromkeys(workload for found in usable.values() for workload in found))
    values = [row[field] for found in usable.values() for row in found.values() for field in ("ratio", "aim")
              if row[field]]
    axis = Axis(values)
    num_bars = sum(len(found) for found in usable.values())
    bottom = TOP + BAR * num_bars + GAP * len(workloads)
    height = bottom + 34
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {STYLE}>",
             f"<rect width='{WIDTH}' height='{height}' rx='8' fill='#ffffff'/>",
             text(16, 26, title, font_size=16, font_weight=600)]
    x = 16
    for index, model in enumerate(usable):
        parts.append(f"<rect x='{x}' y='40' width='12' height='12' fill='{COLOURS[index % len(COLOURS)]}'/>")
        parts.append(text(x + 18, 51, short(model)))
        x += 30 + 7.4 * len(short(model))
    parts += [aim_mark(x + 6, 38), text(x + 14, 51, "aim")]
    for tick in axis.ticks():
        colour = "#6b7280" if tick == 1 else "#e5e7eb"
        parts.append(f"<path d='M{axis.x(tick):.1f} {TOP - 8}V{bottom}' stroke='{colour}'/>")
        parts.append(text(axis.x(tick), bottom + 18, f"{tick:g}x", text_anchor="middle", fill="#6b7280"))
    parts += bars(usable, workloads, axis)
    return "\n".join([*parts, "</svg>", ""])


def bars(usable, workloads, axis):
    parts, y = [], TOP
    for workload in workloads:
        models = [(index, found[workload]) for index, found in enumerate(usable.values())
                  if workload in found]
        parts.append(text(LEFT - 10, y + BAR * len(models) / 2 + 4, workload, text_anchor="end"))
        for index, row in models:
            begin, end = sorted((axis.x(1), axis.x(row["ratio"])))
            parts.append(f"<rect x='{begin:.1f}' y='{y + 1}' width='{end - begin:.1f}' height='{BAR - 2}' "
                         f"fill='{COLOURS[index % len(COLOURS)]}'/>")
            if row["aim"]:
                parts.append(aim_mark(axis.x(row["aim"]), y))
            beyond = max(axis.x(row["ratio"]), axis.x(row["aim"]) if row["aim"] else 0, axis.x(1))
            parts.append(text(beyond + 6, y + BAR - 3.5, ratio_label(row["ratio"]), font_size=12))
            y += BAR
        y += GAP
    return parts
