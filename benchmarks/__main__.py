"""What we cost beside the least that anybody must spend, measured on this machine.

    python -m benchmarks                   the whole run, about ten minutes
    python -m benchmarks --quick           every workload, small: does it work at all?
    python -m benchmarks --only W1,agents  some workloads, or whole suites: store, agents, …
    python -m benchmarks --write           also docs/performance.md and its plots

The targets are those of docs/performance.md, which also says how each figure is taken. Missing one does
not fail the run: this is a measurement, and machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import agents, compaction, execution, questions, report, retrieval, routing, server, store
from benchmarks.measure import Result, Run, Suite, Workload

SUITES = (
    store.SUITE,
    agents.SUITE,
    server.SUITE,
    questions.SUITE,
    compaction.SUITE,
    routing.SUITE,
    execution.SUITE,
    retrieval.SUITE,
)
WORKLOADS = {name: workload for suite in SUITES for name, workload in suite.workloads.items()}


def main() -> None:
    arguments = _arguments()
    measured, repetitions = _measured(arguments.only, quick=arguments.quick)
    results = [result for name in arguments.only for result in measured[name]]
    if arguments.json:
        report.print_json(results, repetitions)
    else:
        report.print_table(results)
    if arguments.write:
        docs = Path(__file__).resolve().parent.parent / "docs"
        for suite in _whole(arguments.only):
            its_results = [result for name in suite.workloads for result in measured[name]]
            report.write_table(docs / "performance.md", suite.name, its_results, repetitions)
            report.write_plot(docs / suite.plot, its_results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure what we cost against the floor.")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, not a measurement")
    parser.add_argument("--only", type=_chosen, default=list(WORKLOADS), metavar="W1,agents")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--write", action="store_true", help="rewrite the tables and the plots in docs/")
    arguments = parser.parse_args()
    covered = {name for suite in _whole(arguments.only) for name in suite.workloads}
    if arguments.write and (arguments.quick or set(arguments.only) != covered):
        parser.error("--write needs whole suites in full size: leave out --quick, or name suites only")
    return arguments


def _chosen(text: str) -> list[str]:
    """The workloads that are named, by themselves or by their suite."""
    named = {name.lower() for name in text.split(",")}
    known = {name.lower() for name in (*WORKLOADS, *(suite.name for suite in SUITES))}
    if unknown := named - known:
        names = ", ".join((*(suite.name for suite in SUITES), *WORKLOADS))
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {names}")
    return [
        name for suite in SUITES for name in suite.workloads if suite.name in named or name.lower() in named
    ]


def _whole(names: Sequence[str]) -> list[Suite]:
    """The suites of which every workload is named."""
    return [suite for suite in SUITES if suite.workloads.keys() <= set(names)]


def _measured(names: Sequence[str], *, quick: bool) -> tuple[dict[str, list[Result]], int]:
    results: dict[str, list[Result]] = {}
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Drawn between measurements only: a thread that redraws would be measured along with them.
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=f"{name}: preparing", refresh=True)
            with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
                step = _steps(lambda text: progress.update(task, description=text, refresh=True), name)
                run = Run(Path(directory), quick=quick, advance=step)
                results[name] = asyncio.run(_run(WORKLOADS[name], run))
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


async def _run(workload: Workload, run: Run) -> list[Result]:
    return await workload(run)


if __name__ == "__main__":
    main()
