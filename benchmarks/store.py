"""The store beside the floor: what it costs over the least that any store must do.

    python benchmarks/store.py                   the whole run, about seven minutes
    python benchmarks/store.py --quick           every workload, small: does it work at all?
    python benchmarks/store.py --only W1,disk    some workloads
    python benchmarks/store.py --write           also docs/performance.md and docs/performance.png

The targets are those of docs/performance.md, which also says how each figure is taken. Missing one does
not fail the run: this is a measurement, and machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import appends, footprint, postgres, reads, report, streams
from benchmarks.measure import Result, Run

WORKLOADS: dict[str, Callable[[Run], Awaitable[list[Result]]]] = {
    "W1": appends.one_at_a_time,
    "W3": appends.many_at_once,
    "W4": reads.latest_messages,
    "W5": reads.whole_history,
    "W6": reads.session_pages,
    "W7": streams.paced_streams,
    "PostgreSQL": postgres.many_at_once,
    "disk": footprint.disk,
    "import": footprint.import_cost,
}


def main() -> None:
    arguments = _arguments()
    results, repetitions = _measured(arguments.only, quick=arguments.quick)
    if arguments.json:
        report.print_json(results, repetitions)
    else:
        report.print_table(results)
    if arguments.write:
        docs = Path(__file__).resolve().parent.parent / "docs"
        report.write_table(docs / "performance.md", results, repetitions)
        report.write_plot(docs / "performance.png", results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the store against the floor.")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, not a measurement")
    parser.add_argument("--only", type=_workloads, default=list(WORKLOADS), metavar="W1,W4")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--write", action="store_true", help="rewrite the table and the plot in docs/")
    arguments = parser.parse_args()
    if arguments.write and (arguments.quick or len(arguments.only) < len(WORKLOADS)):
        parser.error("--write needs the whole run: leave out --quick and --only")
    return arguments


def _workloads(text: str) -> list[str]:
    named = {name.lower() for name in text.split(",")}
    if unknown := named - {name.lower() for name in WORKLOADS}:
        known = ", ".join(WORKLOADS)
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {known}")
    return [name for name in WORKLOADS if name.lower() in named]


def _measured(names: Sequence[str], *, quick: bool) -> tuple[list[Result], int]:
    results: list[Result] = []
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Drawn between measurements only: a thread that redraws would be measured along with them.
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=f"{name}: preparing", refresh=True)
            with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
                step = _steps(lambda text: progress.update(task, description=text, refresh=True), name)
                run = Run(Path(directory), quick=quick, advance=step)
                results += asyncio.run(_run(name, run))
            progress.advance(task)
    return results, run.repetitions


def _steps(show: Callable[[str], None], name: str) -> Callable[[], None]:
    """Says after every repetition how many there were."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        show(f"{name}: repetition {done} done")

    return step


async def _run(name: str, run: Run) -> list[Result]:
    return await WORKLOADS[name](run)


if __name__ == "__main__":
    main()
