"""User-defined conversions: arguments, results, and rejected files."""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.align import Aligned, convert
from opdiff.align.custom import Conversions, ConversionScript, load_conversions
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError, PluginError
from opdiff.core.tensor import TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.tensor import Shape

BACKWARDS = "def convert(shape_from, shape_to, array):\n    return array[::-1].reshape(shape_from)\n"
CODES = np.arange(6, dtype="<u2").reshape(2, 3)


def write(folder: Path, scripts: dict[str, str]) -> str:
    (folder / "format_convert").mkdir()
    for name, text in scripts.items():
        (folder / "format_convert" / name).write_text(text)
    return str(folder)


def change(custom: Conversions, source: str, target: str, shape: Shape = (), groups: int = 1) -> Aligned:
    spec = TensorSpec(dtypes.BFLOAT16, CODES.shape, source, (3, 2), groups)
    return convert(CODES, spec, target, shape, custom)


def test_user_defined_layouts(tmp_path: Path) -> None:
    custom = load_conversions(
        write(tmp_path, {"convert_FSR_NCHW_to_NCHW.py": BACKWARDS, "convert_mine_to_x.py": BACKWARDS})
    )
    path = str(tmp_path / "format_convert" / "convert_FSR_NCHW_to_NCHW.py")
    assert custom.scripts[0] == ConversionScript("FSR_NCHW", "NCHW", path)
    for source, target in [("FSR_NCHW", "NCHW"), ("mine", "x")]:
        aligned = change(custom, source, target)
        assert aligned.codes.tolist() == [[5, 4, 3], [2, 1, 0]]
        assert aligned.layout == target
    (step,) = change(custom, "FSR_NCHW", "NCHW").steps
    assert str(step) == f"FSR_NCHW [2, 3] -> NCHW [2, 3] by {path}"


def test_script_replaces_the_builtin_conversion_of_its_layouts(tmp_path: Path) -> None:
    custom = load_conversions(write(tmp_path, {"convert_ND_to_NCHW.py": BACKWARDS}))
    assert change(custom, "ND", "NCHW").codes[0, 0] == 5
    assert change(custom, "ND", "NHWC").codes[0, 0] == 0


ARGUMENTS = """
import numpy as np
def convert(shape_from, shape_to, array{extra}):
    assert type(shape_from) is list and type(shape_to) is list
    assert array.ndim == 1 and array.flags.writeable and array.dtype == np.uint16
    array[:] = 7
    return np.array([*shape_from, 99, *shape_to{value}], array.dtype)
"""


def test_arguments_of_scripts(tmp_path: Path) -> None:
    plain, grouped = ARGUMENTS.format(extra="", value=""), ARGUMENTS.format(extra=", group", value=", group")
    custom = load_conversions(write(tmp_path, {"convert_A_to_B.py": plain, "convert_A_to_FRACTAL_Z.py": grouped}))
    assert change(custom, "A", "B").codes.tolist() == [2, 3, 99, 3, 2]
    assert change(custom, "A", "FRACTAL_Z", groups=4).codes.tolist() == [2, 3, 99, 3, 2, 4]
    assert change(custom, "A", "B", shape=(1, 5)).codes.tolist() == [[2, 3, 99, 1, 5]]
    assert CODES.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_scripts_run_once_on_first_use_and_leave_nothing(tmp_path: Path) -> None:
    count = f"with open({str(tmp_path / 'count')!r}, 'a') as file:\n    file.write('x')\n"
    custom = load_conversions(write(tmp_path, {"convert_A_to_B.py": count + BACKWARDS}))
    assert not (tmp_path / "count").exists()
    modules, paths = set(sys.modules), list(sys.path)
    change(custom, "A", "B")
    change(pickle.loads(pickle.dumps(custom)), "A", "B")  # noqa: S301 (made here)
    assert (tmp_path / "count").read_text() == "x"
    assert (set(sys.modules), sys.path) == (modules, paths)
    assert os.listdir(tmp_path / "format_convert") == ["convert_A_to_B.py"]
    # A script that was changed is loaded again.
    (tmp_path / "format_convert" / "convert_A_to_B.py").write_text("def convert(f, t, array):\n    return array\n")
    assert change(custom, "A", "B").codes.tolist() == [0, 1, 2, 3, 4, 5]


def test_bytecode_folder_is_ignored(tmp_path: Path) -> None:
    directory = write(tmp_path, {})
    (tmp_path / "format_convert" / "__pycache__").mkdir()
    assert load_conversions(directory) == Conversions(str(tmp_path))


BAD_NAMES = [
    ("convert_A_B.py", "is not named convert_{SOURCE}_to_{TARGET}.py"),
    ("convert_A_to_B.pyc", "is not named"),
    ("convert_A-1_to_B.py", "is not named"),
    ("convert__to_B.py", "is not named"),
    ("README.md", "is not named"),
    ("convert_Ä_to_B.py", "is not named"),
    ("convert_" + "A" * 129 + "_to_B.py", "is not named"),
    ("convert_A_to_B_to_C.py", "name is ambiguous"),
    ("convert_A_to_to_B.py", "name is ambiguous"),
]


@pytest.mark.parametrize(("name", "problem"), BAD_NAMES, ids=[name[:24] for name, _ in BAD_NAMES])
def test_invalid_script_names_raise(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_conversions(write(tmp_path, {name: BACKWARDS}))
    assert str(caught.value).startswith(f"conversion '{tmp_path}/format_convert/{name}': ")
    assert problem in str(caught.value)


BAD_SCRIPTS = [
    ("convert_A_to_B.py", "", "has no function convert"),
    ("convert_A_to_B.py", "convert = 3", "has no function convert"),
    ("convert_A_to_B.py", "def convert(a, b): ...", "must take 3 arguments: shape_from, shape_to, array"),
    ("convert_A_to_B.py", "def convert(a, b, c, d): ...", "must take 3 arguments"),
    ("convert_A_to_FRACTAL_Z.py", "def convert(a, b, c): ...", "must take 4 arguments: .* group"),
    ("convert_A_to_B.py", "convert = type", "must take 3 arguments"),
    ("convert_A_to_B.py", "def convert(:", "cannot be loaded: SyntaxError"),
    ("convert_A_to_B.py", "raise SystemExit(3)", r"cannot be loaded: SystemExit\(3\)"),
    ("convert_A_to_B.py", "import no_such_module", "cannot be loaded: ModuleNotFoundError"),
    ("convert_A_to_B.py", "\0", "cannot be loaded: "),
]


@pytest.mark.parametrize(("name", "text", "problem"), BAD_SCRIPTS, ids=[repr(text) for _, text, _ in BAD_SCRIPTS])
def test_invalid_scripts_raise_on_first_use(tmp_path: Path, name: str, text: str, problem: str) -> None:
    custom = load_conversions(write(tmp_path, {name: text}))
    with pytest.raises(PluginError, match=f"conversion '.*/{name}': .*{problem}"):
        change(custom, "A", name[len("convert_A_to_") : -len(".py")])


BAD_RESULTS = [
    ("raise ValueError('no')", r"convert_A_to_B.py failed: ValueError\('no'\)"),
    ("raise SystemExit", r"convert_A_to_B.py failed: SystemExit\(\)"),
    ("return None", "returned NoneType, not an array"),
    ("return [1, 2]", "returned list, not an array"),
    ("return array.astype('f4')", "returned float32 for codes of type uint16; the type must not change"),
    ("return array[:5]", r"returned shape \[5\] instead of \[3, 2\]"),
]


@pytest.mark.parametrize(("body", "problem"), BAD_RESULTS, ids=[body for body, _ in BAD_RESULTS])
def test_failure_of_a_script_is_a_layout_error(tmp_path: Path, body: str, problem: str) -> None:
    text = f"def convert(shape_from, shape_to, array):\n    {body}\n"
    custom = load_conversions(write(tmp_path, {"convert_A_to_B.py": text}))
    with pytest.raises(LayoutError, match=f"layout A: .*{problem}"):
        change(custom, "A", "B", shape=(3, 2))


def test_result_has_the_requested_shape(tmp_path: Path) -> None:
    custom = load_conversions(write(tmp_path, {"convert_A_to_B.py": BACKWARDS}))
    assert change(custom, "A", "B", shape=(3, 2)).codes.shape == (3, 2)


def test_linked_scripts_and_folders_outside_of_the_directory_raise(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(BACKWARDS)
    inside = tmp_path / "custom"
    inside.mkdir()
    directory = write(inside, {"convert_A_to_B.py": BACKWARDS})
    link = inside / "format_convert" / "convert_C_to_D.py"
    link.symlink_to("convert_A_to_B.py")
    assert len(load_conversions(directory).scripts) == 2
    link.unlink()
    link.symlink_to(outside)
    with pytest.raises(PluginError, match=f"convert_C_to_D.py': is a link to a file outside of {inside}"):
        load_conversions(directory)
    link.unlink()
    other = tmp_path / "other"
    other.mkdir()
    (other / "format_convert").symlink_to(inside / "format_convert")
    with pytest.raises(PluginError, match=f"is a link to a file outside of {other}"):
        load_conversions(str(other))


def test_irregular_and_large_scripts_raise(tmp_path: Path) -> None:
    directory = write(tmp_path, {})
    path = tmp_path / "format_convert" / "convert_A_to_B.py"
    os.mkfifo(path)
    with pytest.raises(PluginError, match="not a regular file"):
        load_conversions(directory)
    path.unlink()
    path.symlink_to("convert_A_to_B.py")
    with pytest.raises(PluginError, match="cannot be read: Too many levels of symbolic links"):
        load_conversions(directory)
    path.unlink()
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(PluginError, match="has 1000001 bytes, at most 1000000 are allowed"):
        load_conversions(directory)


def test_number_of_scripts_is_limited(tmp_path: Path) -> None:
    directory = write(tmp_path, {f"convert_A{number}_to_B.py": "" for number in range(1000)})
    assert len(load_conversions(directory).scripts) == 1000
    (tmp_path / "format_convert" / "convert_A1000_to_B.py").touch()
    with pytest.raises(PluginError, match="holds more than 1000 files"):
        load_conversions(directory)


def test_missing_folders_and_scripts_raise(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="format_convert': cannot be listed: No such file or directory"):
        load_conversions(str(tmp_path))
    custom = load_conversions(write(tmp_path, {"convert_A_to_B.py": BACKWARDS}))
    (tmp_path / "format_convert" / "convert_A_to_B.py").unlink()
    with pytest.raises(PluginError, match=r"convert_A_to_B.py': cannot be read: No such file"):
        change(custom, "A", "B")
