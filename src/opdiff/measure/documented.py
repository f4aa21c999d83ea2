"""The ten metrics of the documented result file: numbers, names, values, and their selection by the user."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.metrics import Metrics


class DocumentedMetric(Struct, frozen=True):
    """One column of the documented result file.

    Attributes:
        number: digit by which it can be selected.
        name: its name, and the title of its column.
        value: number or string to print; `None` if it was not measured.
    """

    number: int
    name: str
    value: Callable[[Metrics], str | float | None]

    @property
    def needs_kl(self) -> bool:
        """Whether it needs a second pass over the data."""
        return self.name == "KullbackLeiblerDivergence"


def deviation_text(metrics: Metrics) -> str | None:
    """Return mean and standard deviation of the target and of the golden tensor: `(mean;std),(mean;std)`."""
    shown = metrics.target_mean, metrics.target_std, metrics.golden_mean, metrics.golden_std
    if None in shown:
        return None
    return "({:.3f};{:.3f}),({:.3f};{:.3f})".format(*map(_rounded, shown))


DOCUMENTED: tuple[DocumentedMetric, ...] = (
    DocumentedMetric(0, "CosineSimilarity", attrgetter("cosine")),
    DocumentedMetric(1, "MaxAbsoluteError", attrgetter("max_absolute_error")),
    DocumentedMetric(2, "AccumulatedRelativeError", attrgetter("accumulated_relative_error")),
    DocumentedMetric(3, "RelativeEuclideanDistance", attrgetter("relative_euclidean_distance")),
    DocumentedMetric(4, "KullbackLeiblerDivergence", attrgetter("kl_divergence")),
    DocumentedMetric(5, "StandardDeviation", deviation_text),
    DocumentedMetric(6, "MeanAbsoluteError", attrgetter("mean_absolute_error")),
    DocumentedMetric(7, "RootMeanSquareError", attrgetter("root_mean_square_error")),
    DocumentedMetric(8, "MaxRelativeError", attrgetter("max_relative_error")),
    DocumentedMetric(9, "MeanRelativeError", attrgetter("mean_relative_error")),
)

BY_NAME: dict[str, DocumentedMetric] = {metric.name: metric for metric in DOCUMENTED}


def parse_selection(text: str, custom: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the selected metrics, in the order of the selection, each once.

    Args:
        text: `all`, or digits and names of any case, separated by commas or blanks.
        custom: names of other metrics; `all` includes them.

    Raises:
        UsageError: the selection is empty or has an unknown metric.
    """
    names, known = _known(custom)
    unknown = unknown_names(text, custom)
    if unknown:
        wrong = because("measure.no_such_metric", name=unknown[0]) if unknown[0] else because("measure.none_chosen")
        choices = (*(f"{metric.number} {metric.name}" for metric in DOCUMENTED), *names[len(DOCUMENTED) :])
        hint = did_you_mean(unknown[0], names)
        raise UsageError(because("measure.metrics", wrong=wrong, names=choices, hint=hint))
    return tuple(dict.fromkeys(name for word in _words(text) for name in known[word.lower()]))


def unknown_names(text: str, custom: Iterable[str] = ()) -> list[str]:
    """Return the words of a selection that select no documented or other metric."""
    _, known = _known(custom)
    return [word for word in _words(text) if word.lower() not in known]


def _known(custom: Iterable[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the names of all metrics, and what each word of a selection selects."""
    names = (*BY_NAME, *(name for name in custom if name not in BY_NAME))
    known: dict[str, tuple[str, ...]] = {name.lower(): (name,) for name in names}
    return names, known | {str(metric.number): (metric.name,) for metric in DOCUMENTED} | {"all": names}


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split() or [""]


def select_metrics(text: str, custom: Iterable[str] = ()) -> tuple[DocumentedMetric, ...]:
    """Return the documented metrics among those of `parse_selection`."""
    return tuple(BY_NAME[name] for name in parse_selection(text, custom) if name in BY_NAME)


def _rounded(value: float | None) -> float:
    """Return 0 for values below the third decimal."""
    return 0.0 if value is None or abs(value) < 0.001 else value
