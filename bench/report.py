"""Measure reports: `make bench`. Time to write, bytes per row, and time until a browser shows it.

write   time to write the HTML report of a comparison with this many rows
size    size of the file, and bytes per row
ready   time from opening the file to the first view in a browser, if there is one
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
from typing import Any

from opdiff.core.comparison import Comparison, Mode, OpLabel, Row, Side, SideInfo
from opdiff.core.dump import DumpKind
from opdiff.core.judgement import Judgement, Level, Verdict
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES, Metrics
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.html_page import write_html

_FLOATS = [name for name in Metrics.__struct_fields__ if name not in ("is_equal", "notes")]
_INTEGERS = ("count", "finite_count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000, 100_000])
    options = parser.parse_args()
    gc.disable()  # as the command line does
    print(f"{'rows':>8} {'write':>10} {'size':>10} {'each row':>10} {'ready':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for count in options.rows:
            path = os.path.join(folder, f"{count}.html")
            comparison = made(count)
            times = [timed(comparison, path) for _ in range(options.rounds)]
            size = os.path.getsize(path)
            each = (size - empty_size(folder)) / count
            opened = ready_s(path, options.rounds)
            shown = "-" if opened is None else f"{opened * 1000:.0f} ms"
            times_ms = statistics.median(times) * 1000
            print(f"{count:8} {times_ms:7.0f} ms {size / 1000:7.0f} kB {each:8.0f} B {shown:>10}")
    return 0


def timed(comparison: Comparison, path: str) -> float:
    start = time.perf_counter()
    write_html(comparison, path)
    return time.perf_counter() - start


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


def ready_s(path: str, rounds: int) -> float | None:
    """Return the seconds from opening a report in a browser to its first view; `None` without a browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    times = []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(rounds):
            page = running.new_page()
            start = time.perf_counter()
            page.goto(Path(path).as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-ready]", state="attached")
            times.append(time.perf_counter() - start)
            page.close()
        running.close()
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
