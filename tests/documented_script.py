"""The documented conversion script, and new Python environments to run it in."""

from __future__ import annotations

import sysconfig
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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


def write_script(folder: Path) -> Path:
    """Write the script as `convert.py`."""
    path = folder / "convert.py"
    path.write_text(SCRIPT.lstrip())
    return path


def make_environment(folder: Path) -> Path:
    """Return the Python of a new environment that has the packages of this one."""
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "base.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return environment / "bin" / "python"
