"""Terminal output: safe strings, tables, JSON and progress."""

from __future__ import annotations

import math
import os
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opdiff.cli.language import language, said, worded
from opdiff.core.atomic_file import find_other_owner, make_folder, open_atomic
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import Reason, because, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal, Self, TextIO

    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    Colour = Literal["auto", "always", "never"]

# Lines of piped output are not wrapped.
_PIPED_WIDTH = 500
_MIN_COLUMNS = 20
_DEFAULT_COLUMNS = 80
_SECONDS_PER_REPORT = 10.0
_MAX_AXES = 16
_MAX_COUNTS = 12
_colour: ContextVar[Colour] = ContextVar("colour", default="auto")


def choose_colour(choice: Colour) -> None:
    """Set when output is coloured: `auto` is on a terminal, unless `NO_COLOR` is set."""
    _colour.set(choice)


def is_coloured() -> bool:
    """Return whether standard output is coloured."""
    if _colour.get() != "auto":
        return _colour.get() == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write_json(path: str, values: object) -> None:
    """Write values as a JSON file, and print its path; if the path is `-`, print the values."""
    write_document(path, (json_text(values) + "\n").encode())
    if path != "-":
        print(printable(said("report.result_file", path=path)))


def write_document(path: str, content: bytes) -> None:
    """Write a document in UTF-8 to a file, or to standard output if the path is `-`."""
    if path == "-":
        print(content.decode(), end="")
        return
    with open_atomic(path) as file:
        file.write(content)


def open_page(path: str) -> None:
    """Open a page in the browser; tell on standard error if there is none."""
    import webbrowser
    from pathlib import Path

    if not webbrowser.open(Path(path).absolute().as_uri()):
        print(printable(f"opdiff: {said('cli.no_browser', path=path)}"), file=sys.stderr)


def json_text(values: object) -> str:
    """Return values as standard JSON: NaN and infinities are strings, reasons are English sentences."""
    import json

    return json.dumps(_plain(values), indent=2)


def _plain(value: object) -> object:
    if isinstance(value, Reason):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Struct):
        return _plain(structs.asdict(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def make_output_folder(folder: str) -> None:
    """Make an output folder, and tell if it belongs to another user."""
    make_folder(folder)
    note_owner(folder)


def note_owner(folder: str) -> None:
    """Tell on standard error if an output folder belongs to another user, who can replace the results."""
    owner = find_other_owner(folder)
    if owner:
        print(printable(f"opdiff: {said('cli.other_owner', folder=folder, owner=owner)}"), file=sys.stderr)


def columns() -> int:
    """Return the width of the terminal; a usual one if standard output is none."""
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns or _DEFAULT_COLUMNS, _MIN_COLUMNS)
    except (OSError, ValueError):  # not a terminal, or not even a file
        return _DEFAULT_COLUMNS


def wrapped(text: str) -> str:
    """Return a line as several that fit on the terminal; unchanged if it is piped."""
    from opdiff.report.columns import wrapped_lines

    if not sys.stdout.isatty():
        return text
    return "\n".join(wrapped_lines(text, columns(), " " * (len(text) - len(text.lstrip()) + 2)))


def shown_shape(shape: tuple[int, ...]) -> str:
    """Return a shape in brackets; of a long one the first axes."""
    axes = ",".join(map(str, shape[:_MAX_AXES]))
    return f"[{axes}]" if len(shape) <= _MAX_AXES else f"[{axes},… {len(shape)} axes]"


def shown_counts(counts: tuple[tuple[str, int], ...]) -> str:
    """Return names with their counts; of many the first."""
    listed = ", ".join(f"{printable(name)} {count}" for name, count in counts[:_MAX_COUNTS])
    return listed if len(counts) <= _MAX_COUNTS else listed + said("core.and_more", count=len(counts) - _MAX_COUNTS)


def table(
    title: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Print a table with titles in the chosen language; `right` names the columns that are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        title=Text(printable(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in titles:
        grid.add_column(
            Text(printable(worded(name))), justify="right" if name in set(right) else "left", overflow="fold"
        )
    for row in rows:
        grid.add_row(*(Text(printable(str(cell))) for cell in row))
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    colours: Literal["standard"] | None = "standard" if is_coloured() else None
    out = Console(width=width, color_system=colours, highlight=False, markup=False, emoji=False, soft_wrap=False)
    # Not printed by rich, which would end the program when a pipe is closed.
    with out.capture() as capture:
        out.print(grid)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()), file=stream)


class Progress:
    """Progress bar on a terminal, occasional lines when piped, nothing when quiet."""

    def __init__(self, activity: str, *, quiet: bool, in_bytes: bool = False) -> None:
        self._activity = activity
        self._quiet = quiet
        self._in_bytes = in_bytes
        # Other threads, which report progress, do not have the choice of the language.
        self._language = language()
        self._reported_at = self._started_at = time.monotonic()
        self._workers = 0
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import Progress

            out = Console(stderr=True, no_color=_colour.get() == "never" or None)
            self._bar = Progress(*self._bar_columns(), console=out, transient=True)
            self._task = self._bar.add_task(self._activity, total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str, stream: TextIO | None = None) -> None:
        """Print a line to standard output, or to another stream; the bar comes back with the next progress."""
        if self._bar is not None:
            self._bar.stop()
        print(line, file=stream or sys.stdout)

    def _bar_columns(self) -> list[ProgressColumn]:
        from rich import progress

        counted: list[ProgressColumn] = [progress.MofNCompleteColumn()]
        if self._in_bytes:
            counted = [progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()]
        return [
            progress.TextColumn("{task.description}"), progress.BarColumn(), *counted, progress.TimeRemainingColumn(),
        ]  # fmt: skip

    def describe(self, activity: str) -> None:
        """Show another activity."""
        self._activity = activity
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._described())

    def reach(self, done: int, total: int) -> None:
        """Report how much of the total is done."""
        if self._bar is not None and self._task is not None:
            self._bar.start()
            self._bar.update(self._task, completed=done, total=total)
        elif not self._quiet and time.monotonic() - self._reported_at > _SECONDS_PER_REPORT:
            self._reported_at = time.monotonic()
            amounts = (size(done), size(total)) if self._in_bytes else (done, total)
            shown = render(because("cli.done_of", done=amounts[0], total=amounts[1]), self._language)
            print(f"opdiff: {self._described()}: {shown}{self._speed(done)}", file=sys.stderr)

    def reach_bytes(self, done: int, total: int) -> None:
        """Report how many bytes of the total are done, after something else was counted, from now on."""
        if not self._in_bytes:
            self.__exit__()
            self._in_bytes, self._started_at = True, time.monotonic()
            self.__enter__()
        self.reach(done, total)

    def show_workers(self, count: int) -> None:
        """Show the number of workers of a cluster from now on."""
        self._workers = count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._described())

    def _described(self) -> str:
        return self._activity + (
            render(because("cli.on_workers", count=self._workers), self._language) if self._workers else ""
        )

    def _speed(self, done: int) -> str:
        """Return the bytes per second of a cluster."""
        if not self._workers or not self._in_bytes:
            return ""
        return f", {size(round(done / (time.monotonic() - self._started_at)))}/s"
