"""Performance goals, as ratios of timings of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bench.rounds import CORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.kernel_alone import Rate
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
