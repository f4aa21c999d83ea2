"""The documented conversion script runs unchanged, with `opdiff compat-path` on the import path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command

# As documented; indentation is restored.
SCRIPT = """
#!/bin/env python3
import os
import time
import argparse
surfix = "_min_max" # Converted data save surfix
# Define how single data is converted
def convert_data_to_info(data):
    return [data.min(), data.max()]
def convert(data_path):
    import numpy as np
    from components.utils.acc_cmp import parse_torchair_dump_data
    npz_surfix, npy_surfix = "{}.npz".format(surfix), "{}.npy".format(surfix)
    for cur_path, dirs, files in os.walk(data_path):
        for file in files:
            if file.endswith(npy_surfix): # already converted FX data
                continue
            cur = os.path.join(cur_path, file)
            if file.endswith(".npy"): # FX saved npy data
                file_name = os.path.splitext(cur)[0]
                np.save(file_name + surfix, convert_data_to_info(np.load(cur)))
                os.remove(cur)
                print("Converted: {} -> {}{}".format(cur, file_name, npy_surfix))
            elif not file.endswith(npz_surfix) and not file.endswith(".txt") and not file.endswith(".swp"):
                inputs, outputs = parse_torchair_dump_data(cur)
                inputs = [convert_data_to_info(ii) for ii in inputs]
                outputs = [convert_data_to_info(ii) for ii in outputs]
                np.savez(cur + npz_surfix, inputs=inputs, outputs=outputs)
                os.remove(cur)
                print("Converted: {} -> {}{}".format(cur, cur, npz_surfix))
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data_path", help="GE or FX data dump path")
    args = parser.parse_args()
    while True:
        convert(args.data_path)
        time.sleep(0.5)
        print("Waiting...")
"""


def compat_path(opdiff: Command) -> str:
    outcome = opdiff("compat-path")
    assert outcome.code == 0
    return outcome.out.strip()


def convert(script: Path, folder: str, path: str) -> None:
    """Run the script until all files are converted, then interrupt it."""
    command = [sys.executable, "-u", str(script), folder]
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("Waiting") for line in process.stdout)
        process.send_signal(signal.SIGTERM)


def test_the_script_runs_and_its_files_are_compared(tmp_path: Path, opdiff: Command) -> None:
    script = tmp_path / "convert.py"
    script.write_text(SCRIPT.lstrip())
    sample = write_graph_sample(str(tmp_path / "dumps"), ranks=1)
    path = compat_path(opdiff)
    for folder in (sample.target, sample.golden):
        convert(script, folder, path)
        left = [name for _, _, names in os.walk(folder) for name in names if not name.endswith(".txt")]
        assert left
        assert all("_min_max.np" in name for name in left)
    outcome = opdiff("compare", sample.target, sample.golden, "-o", tmp_path / "o")
    assert outcome.code == 0, outcome
    assert "first bad operator: MatMul_1 (MatMul_1.output.0)" in outcome.out


def test_modules_are_not_on_the_normal_import_path() -> None:
    done = subprocess.run([sys.executable, "-c", "import components"], capture_output=True, text=True, check=False)
    assert "No module named 'components'" in done.stderr


def test_arrays_have_no_padding(tmp_path: Path, opdiff: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(compat_path(opdiff))
    from components.utils.acc_cmp import parse_torchair_dump_data  # type: ignore[import-not-found]

    values = np.array([[1, 2.5], [-3, 8]], np.float32)
    tensors = [encode_tensor(values, dtypes.BFLOAT16), encode_tensor(values, dtypes.FLOAT16, "FRACTAL_NZ")]
    path = tmp_path / "Add.Add.1.6.1706596911000001"
    path.write_bytes(standard_dump(EncodedDump((tensors[0],), (tensors[1],))))
    (first,), (second,) = parse_torchair_dump_data(path)
    np.testing.assert_array_equal(first, values)
    np.testing.assert_array_equal(second, values)
    np.savez(f"{path}_min_max.npz", inputs=[[1, 2]], outputs=[])
    inputs, outputs = parse_torchair_dump_data(f"{path}_min_max.npz")
    assert ([list(line) for line in inputs], list(outputs)) == ([[1, 2]], [])
    path.write_bytes(b"")
    with pytest.raises(DumpError, match="the file is empty"):
        parse_torchair_dump_data(path)
