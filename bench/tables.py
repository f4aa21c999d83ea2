"""Results as tables and as JSON, with performance goals: ratios of timings of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from bench.rounds import CORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.kernel_alone import Rate
    from bench.processes import Memory
    from bench.rounds import Timings


ALL = f"opdiff -j {CORES}"
NO_KL = f"{ALL}, no KL"
ONE = "opdiff -j 1"
MB = 1_000_000


class Results(NamedTuple):
    """All measurements: by preset and run, and of the kernel alone by name."""

    presets: dict[str, dict[str, Timings]]
    kernel: dict[str, Rate]

    def ratio(self, preset: str, over: str, under: str) -> float:
        """Return the ratio of the times of two runs.

        Raises:
            KeyError: one of them was not measured.
        """
        timings = self.presets[preset]
        return timings[over].seconds / timings[under].seconds

    def own_mb(self, preset: str, run: str) -> float:
        """Return anonymous memory in MB.

        Raises:
            KeyError: it was not measured.
        """
        memory = self.presets[preset][run].memory
        if memory is None:
            raise KeyError(run)
        return memory.own / MB


class Aim(NamedTuple):
    """A value and its lower or upper bound."""

    text: str
    figure: Callable[[Results], float]
    at_least: float | None = None
    at_most: float | None = None
    form: str = "{:.1f}x"

    @property
    def bound(self) -> str:
        """The bound as a string."""
        if self.at_least is not None:
            return "≥ " + self.form.format(self.at_least)
        return "≤ " + self.form.format(self.at_most)

    def is_met(self, value: float) -> bool:
        """Return whether the bound is respected."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is None or value <= self.at_most


def _vendor(preset: str, run: str = ALL) -> Callable[[Results], float]:
    return lambda results: results.ratio(preset, "vendor", run)


def _other(preset: str, at_most: float) -> Aim:
    text = f"{preset}: time relative to the other opdiff"
    return Aim(text, lambda results: results.ratio(preset, ALL, f"other -j {CORES}"), None, at_most, "{:.2f}x")


AIMS = (
    Aim("resnet50-like: times faster than the vendor's tool", _vendor("resnet50-like"), 30),
    Aim("many-small: times faster than the vendor's tool", _vendor("many-small"), 50),
    Aim("few-large: times faster than the vendor's tool", _vendor("few-large"), 80),
    Aim("resnet50-like: numpy alone, times faster than the vendor's tool",
        _vendor("resnet50-like", f"numpy -j {CORES}"), 5),
    Aim("6,000 small operators, time of 3,000",
        lambda all_: all_.ratio("many-small", "opdiff, twice-as-many", ALL), None, 2.2),
    _other("resnet50-like", 1.3), _other("few-large", 1.3), _other("many-small", 1.6),
    Aim("20 operators, time of an empty Python", lambda all_: all_.ratio("tiny", ALL, "empty python"), None, 12),
    Aim("few-large: all cores, times faster than one", lambda all_: all_.ratio("few-large", ONE, ALL), 1.7,
        form="{:.2f}x"),
    Aim("many-small: all cores, times faster than one", lambda all_: all_.ratio("many-small", ONE, ALL), 1,
        form="{:.2f}x"),
    Aim("few-large without KL: share of the speed of reading", lambda all_: all_.ratio("few-large", "read x2", NO_KL),
        0.30, form="{:.0%}"),
    Aim("few-large: share of the speed of reading", lambda all_: all_.ratio("few-large", "read x2", ALL), 0.20,
        form="{:.0%}"),
    Aim("kernel, first pass: share of the speed of reading", lambda all_: all_.kernel["contiguous x1"].share, 0.33,
        form="{:.0%}"),
    Aim("kernel with KL: share of the speed of reading", lambda all_: all_.kernel["contiguous with KL x1"].share, 0.15,
        form="{:.0%}"),
    Aim("kernel, NC1HWC0 in place: share of contiguous",
        lambda all_: all_.kernel["NC1HWC0 x1"].gb_s / all_.kernel["contiguous x1"].gb_s, 0.75, form="{:.2f}"),
    Aim("few-large: memory of its own", lambda all_: all_.own_mb("few-large", ALL), None, 150, "{:.0f} MB"),
    Aim("tensors four times as large: memory of its own, times that",
        lambda all_: all_.own_mb("few-large", "opdiff, larger") / all_.own_mb("few-large", ALL), None, 1.1,
        "{:.2f}x"),
)  # fmt: skip


def outcomes(results: Results) -> list[tuple[Aim, float | None]]:
    """Return every goal with its value; `None` if it was not measured."""
    found: list[tuple[Aim, float | None]] = []
    for aim in AIMS:
        try:
            found.append((aim, aim.figure(results)))
        except KeyError:
            found.append((aim, None))
    return found


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
