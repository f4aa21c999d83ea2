"""Measure reports: `make bench`. Time to write, bytes per row, and times and memory of a browser that shows them.

write   CPU time to write the HTML report of a comparison with this many rows
size    size of the file, and bytes per row
ready   time from opening the file to the first view in a browser, if there is one
unit    graph mode: time from choosing another token on the first view to its curve
search  graph mode: time to search all rows for a name
heap    memory of JavaScript after all of it, garbage collected

`--graph` measures graph mode: tokens of 2,000 operators.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from opdiff.core.comparison import Comparison, GraphNode, Mode, ModelGraph, Row, Side, SideInfo
from opdiff.core.dump import DumpKind, Unit
from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Verdict
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES, Metrics
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import because
from opdiff.core.row_store import RowStore
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.html_page import write_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

_FLOATS = [name for name in Metrics.__struct_fields__ if name not in ("is_equal", "notes")]
_INTEGERS = ("count", "finite_count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches")


_OPERATORS = 2000
MB = 1_000_000


class Opened(NamedTuple):
    """Times of a browser in seconds, and the memory of its JavaScript."""

    ready_s: float
    unit_s: float | None
    search_s: float | None
    heap_nbytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000, 100_000])
    parser.add_argument("--graph", action="store_true", help="rows of graph mode")
    options = parser.parse_args()
    gc.disable()  # as the command line does
    print(f"{'rows':>8} {'write':>10} {'size':>11} {'each row':>9} {'ready':>9} {'unit':>9} {'search':>9} {'heap':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for count in options.rows:
            path = os.path.join(folder, f"{count}.html")
            comparison = made_tokens(count) if options.graph else made(count)
            write_s = min(cpu_s(comparison, path) for _ in range(options.rounds))
            size = os.path.getsize(path)
            each = (size - empty_size(folder)) / count
            print(
                f"{count:8} {write_s * 1000:7.0f} ms {size / 1000:8.0f} kB {each:7.0f} B {shown(path, options.rounds)}"
            )
    return 0


def cpu_s(comparison: Comparison, path: str) -> float:
    start = time.process_time()
    write_html(comparison, path)
    return time.process_time() - start


def shown(path: str, rounds: int) -> str:
    """Return what a browser needs, as text: the medians; dashes without a browser."""
    found = opened(path, rounds)
    if not found:
        return f"{'-':>9} {'-':>9} {'-':>9} {'-':>8}"
    times = [[each for each in column if each is not None] for column in list(zip(*found, strict=True))[:3]]
    texts = [f"{statistics.median(column) * 1000:.0f} ms" if column else "-" for column in times]
    heap = statistics.median(each.heap_nbytes for each in found)
    return f"{texts[0]:>9} {texts[1]:>9} {texts[2]:>9} {heap / MB:5.0f} MB"


def empty_size(folder: str) -> int:
    path = os.path.join(folder, "empty.html")
    write_html(made(0), path)
    return os.path.getsize(path)


def made(count: int) -> Comparison:
    """Return a comparison with realistic names, and metrics that differ between all rows."""
    generator = random.Random(1)  # noqa: S311  no secret
    rows = tuple(row(number, generator) for number in range(count))
    sides = Side("/dump/20240115", DumpKind.NPU), Side("/golden", DumpKind.ARRAYS)
    judgement = Judgement("", tuple(Verdict(Level.NOISE, because("judge.all_equal")) for _ in rows))
    return Comparison(Mode.OFFLINE, *sides, because("pair.scenario_original"), rows, judgement)


def row(number: int, generator: random.Random) -> Row:
    name = f"model/layer{number // 40}/block{number // 2}/conv_{number // 2}"
    error = 10 ** generator.uniform(-6, -0.5)
    metrics: dict[str, Any] = {field: error * generator.random() for field in _FLOATS}
    metrics |= dict.fromkeys(_INTEGERS, 0)
    metrics |= {"cosine": 1 - error * error, "norm_ratio": 1 + error / 20, "count": 200_704, "worst_index": number}
    metrics |= {"is_equal": False, "worst_relative_index": number, "first_special_mismatch": None}
    metrics["relative_histogram"] = (0,) * 8 + tuple(generator.randrange(100_000) for _ in RELATIVE_EDGES[6:])
    metrics["ulp_histogram"] = (0,) + tuple(generator.randrange(10_000) for _ in ULP_EDGES[:12]) + (0,) * 11
    key = TensorKey(name, Slot.OUTPUT if number % 2 else Slot.INPUT, 0)
    return Row(
        OpLabel(number // 2, number, ("Conv2D", "Relu", "MatMulV2", "Add")[number % 4], name, name),
        key,
        key,
        SideInfo(
            f"/dump/20240115/Conv2D.conv_{number // 2}.{number}.4.17000001000{number:05}",
            "float16",
            address=20_618_000_384_000 + 512 * number,
        ),
        SideInfo(f"/golden/conv_{number // 2}.0.17000001000{number:05}.npy", "float32", address=0),
        (1, 64, 56, 56),
        metrics=Metrics(**metrics),
        steps=(
            because("align.unpacked", layout="NC1HWC0", stored=(1, 4, 56, 56, 16), axes="NCHW", shape=(1, 64, 56, 56)),
        ),
        evidence=because("pair.output_is", index=0, origin=f"{name}:0"),
        confidence=1.0,
    )


def made_tokens(count: int) -> Comparison:
    """Return a comparison of tokens in graph mode, whose rows are in a file if they are many."""
    generator = random.Random(1)  # noqa: S311  no secret
    store = RowStore()
    names = [row(number, generator) for number in range(_OPERATORS)]
    for token in range(-(-count // _OPERATORS)):
        unit = Unit(0, token, None)
        store.add(of_token(each, unit, generator) for each in names[: count - token * _OPERATORS])
    rows = store.finish()
    verdicts = tuple(Verdict(Level.NOISE, because("judge.all_equal")) for _ in rows)
    documented = tuple(DocumentedResult("PASS", "", Colour.NONE) for _ in rows)
    nodes = tuple(GraphNode(each.label.target, each.label.op_type) for each in names)
    units = tuple(dict.fromkeys(each.unit for each in rows if each.unit))
    sides = Side("/dump/20240115", DumpKind.NPU), Side("/golden", DumpKind.ARRAYS)
    scenario = because("pair.scenario_original")
    judgement = Judgement("", verdicts, documented=documented)
    return Comparison(Mode.GRAPH, *sides, scenario, rows, judgement, graphs=(ModelGraph(nodes, units),))


def of_token(template: Row, unit: Unit, generator: random.Random) -> Row:
    """Return a row with the names of another, and with files and metrics of its own."""
    other = row(template.label.sequence, generator)
    target = structs.replace(other.target, path=f"{other.target_path}{unit.token:03}") if other.target else None
    golden = structs.replace(other.golden, path=f"{other.golden_path}{unit.token:03}") if other.golden else None
    key = TensorKey(template.label.target, Slot.OUTPUT, 0)
    return structs.replace(other, key=key, golden_key=key, target=target, golden=golden, unit=unit, steps=())


def opened(path: str, rounds: int) -> list[Opened]:
    """Open a report in a browser several times; empty without a browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if browser is None:
        return []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        found = [open_once(running, path) for _ in range(rounds)]
        running.close()
    return found


def open_once(browser: Browser, path: str) -> Opened:
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(Path(path).as_uri(), wait_until="commit")
    page.wait_for_selector("html[data-ready]", state="attached")
    ready_s = time.perf_counter() - start
    page.wait_for_load_state("load")
    unit_s = search_s = None
    if page.locator(".unit").count():
        unit_s = timed(lambda: choose_last_unit(page))
        page.evaluate("location.hash = '#/table?search=conv_7'")
        search_s = timed(lambda: page.wait_for_selector(".count[data-done]"))
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = int(session.send("Runtime.getHeapUsage")["usedSize"])
    page.close()
    return Opened(ready_s, unit_s, search_s, heap)


def choose_last_unit(page: Page) -> None:
    page.click(".unit >> nth=-1")
    page.wait_for_selector(".curve[data-points]")


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
