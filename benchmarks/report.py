"""The results as a table on the screen, as JSON, and as a table and a plot for the documentation."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import apsw
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Result, Spread

BEGIN = "<!-- benchmark of the {suite}: begin (written by make bench ARGS=--write) -->"
END = "<!-- benchmark of the {suite}: end -->"
HEADINGS = ("", "workload", "target", "ours", "floor", "figure (least – greatest)", "")


def print_table(results: Sequence[Result]) -> None:
    # A terminal wraps what does not fit; a pipe or a file has no width, and gets the whole table.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    table = Table(*HEADINGS, box=None, header_style="bold", pad_edge=False)
    for result in results:
        style = {True: "green", False: "bold red", None: "dim"}[result.met]
        *cells, verdict = _cells(result)
        table.add_row(*cells, f"[{style}]{verdict}[/]", style="dim" if result.met is None else None)
    console.print(table)
    missed = sum(result.met is False for result in results)
    judged = sum(result.met is not None for result in results)
    console.print(f"\n{judged - missed} of {judged} targets met · {machine()}")


def print_json(results: Sequence[Result], repetitions: int) -> None:
    rows = [asdict(result) | {"value": result.value._asdict(), "met": result.met} for result in results]
    print(json.dumps({"machine": machine(), "repetitions": repetitions, "results": rows}, indent=2))


def write_table(document: Path, suite: str, results: Sequence[Result], repetitions: int) -> None:
    """Put the table into a Markdown file, between the two marks of its suite."""
    begin, end = BEGIN.format(suite=suite), END.format(suite=suite)
    before, rest = document.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(_cells, results)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    when = datetime.now(UTC).date().isoformat()
    busy = f"load average {os.getloadavg()[0]:.1f} at its end"
    said = f"Run of {when} on {machine()}; {repetitions} repetitions; {busy}."
    document.write_text(f"{before}{begin}\n\n{said}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def write_plot(image: Path, results: Sequence[Result]) -> None:
    """Every judged figure as a share of its target: whatever stays left of the line is met."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    judged = [result for result in reversed(results) if result.at_most or result.at_least]
    shares = [_share(result) for result in judged]
    figure, axes = pyplot.subplots(figsize=(11, 0.42 * len(judged) + 1.4), layout="constrained")
    axes.barh(
        range(len(judged)),
        [share.median for share in shares],
        xerr=[[s.median - s.low for s in shares], [s.high - s.median for s in shares]],
        color=["#3b7d5c" if result.met else "#b5472f" for result in judged],
        ecolor="#555555",
        capsize=3,
        height=0.6,
    )
    axes.axvline(1, color="black", linewidth=1)
    names = [f"{result.workload}: {result.what}" for result in judged]
    axes.set_yticks(range(len(judged)), names, fontsize=8)
    axes.set_xlim(0, max(1.25, *(share.high * 1.02 for share in shares)))
    axes.set_xlabel("share of the target that is used (median, least, greatest); the line is the target")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(image, dpi=120)
    pyplot.close(figure)


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()} "
        f"(stdlib: {sqlite3.sqlite_version}), asyncpg {version('asyncpg')}"
    )


def _cells(result: Result) -> list[str]:
    target = ""
    if result.at_most is not None:
        target = f"≤ {_figure(result.at_most, result.unit)}"
    elif result.at_least is not None:
        target = f"≥ {_figure(result.at_least, result.unit)}"
    median, low, high = (_figure(value, result.unit) for value in result.value)
    figure = median if low == high else f"{median} ({low} – {high})"
    verdict = {True: "met", False: "missed", None: ""}[result.met]
    return [result.workload, result.what, target, result.ours, result.floor, figure, verdict]


def _figure(value: float, unit: str) -> str:
    return f"{value:.3g}{unit}" if value < 100 else f"{value:,.0f}{unit}"


def _share(result: Result) -> Spread:
    if result.at_most is not None:
        return Spread(*(value / result.at_most for value in result.value))
    assert result.at_least is not None
    median, low, high = (result.at_least / value for value in result.value)
    return Spread(median, high, low)
