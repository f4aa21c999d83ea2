"""Results as tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.aims import ALL, MB, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.aims import Results
    from bench.kernel_alone import Rate
    from bench.processes import Memory
    from bench.rounds import Timings


def tables(results: Results) -> Iterator[Table]:
    """Yield a table for each preset, one for the kernel, and one for the goals."""
    for name, timings in results.presets.items():
        yield preset_table(name, timings)
    if results.kernel:
        yield kernel_table(results.kernel)
    yield aims_table(results)


def preset_table(name: str, timings: dict[str, Timings]) -> Table:
    table = _table(name, "run", "seconds", f"x {ALL}", "work, s", "resident, MB", "private, MB", "own, MB", "rounds")
    own = timings[ALL].seconds if ALL in timings else None
    for run, found in timings.items():
        times = f"{found.seconds / own:.2f}" if own else ""
        cpu = sorted(found.cpu_s)[len(found.cpu_s) // 2]
        table.add_row(
            run, f"{found.seconds:.3f}", times, f"{cpu:.2f}", *_memory_cells(found.memory), str(len(found.wall_s))
        )
    return table


def _memory_cells(memory: Memory | None) -> tuple[str, ...]:
    return tuple(f"{nbytes / MB:.0f}" for nbytes in memory) if memory else ("", "", "")


def kernel_table(rates: dict[str, Rate]) -> Table:
    table = _table("the kernel alone", "run", "GB/s", "of reading")
    for name, rate in rates.items():
        table.add_row(name, f"{rate.gb_s:.2f}", f"{rate.share:.0%}")
    return table


def aims_table(results: Results) -> Table:
    table = _table("aims", "what", "found", "aim", "")
    for aim, value in outcomes(results):
        shown = "" if value is None else aim.form.format(value)
        verdict = "not measured" if value is None else "met" if aim.is_met(value) else "MISSED"
        table.add_row(aim.text, shown, aim.bound, verdict)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number and column else "left")
    return table


def as_json(results: Results, machine: dict[str, Any]) -> dict[str, Any]:
    """Return all measurements, round by round."""
    return {
        "machine": machine,
        "presets": {
            name: {
                run: found._asdict() | {"memory": found.memory._asdict() if found.memory else None}
                for run, found in timings.items()
            }
            for name, timings in results.presets.items()
        },
        "kernel": {name: rate._asdict() for name, rate in results.kernel.items()},
        "aims": [
            {"what": aim.text, "aim": aim.bound, "found": value, "met": None if value is None else aim.is_met(value)}
            for aim, value in outcomes(results)
        ],
    }
