"""`opdiff selftest`: faults are injected into copies only, found, and named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import run
from dump_files import tensor
from made_dumps import numbers
from opdiff.core import dtypes
from opdiff.core.dump import side_tensor
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.tensor import Declared, Slot, TensorKey
from opdiff.read import read_operator
from opdiff.sample import write_sample
from opdiff.workflows.selftest.faults import FAULTS, inject, logical_values

if TYPE_CHECKING:
    from made_dumps import Case

ROOT = Path(__file__).parents[3]


def digests(*folders: Path | str) -> dict[str, str]:
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def outcomes(case: Case, *options: object, code: int = 0) -> list[dict[str, Any]]:
    path = case.root / "selftest.json"
    outcome = run(case.capsys, "selftest", case.target, case.golden, "--json", path, *options)
    assert outcome.code == code, outcome
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def network(case: Case, count: int = 3, dtype: dtypes.DType = dtypes.FLOAT16) -> None:
    for number in range(count):
        values = numbers(2, 6, 8, seed=number) * (20 if dtype.kind is dtypes.Kind.INTEGER else 1)
        values = np.rint(values) if dtype.kind is dtypes.Kind.INTEGER else values
        case.npu(f"op{number}", tensor(values, dtype))
        case.npu_golden(f"op{number}", tensor(values, dtype))


def test_every_fault_in_the_sample_is_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_sample(str(tmp_path / "a sample"), faults=())
    before = digests(tmp_path)
    outcome = run(
        capsys, "selftest", sample.target, sample.golden, "--rules", sample.rules, "--tensors", 4, "--seed", 3
    )
    assert outcome.code == 0, outcome
    assert "32 of 32 injected faults were found, 32 were named correctly" in outcome.out
    assert digests(tmp_path) == before


def test_chosen_faults_and_tensors(case: Case) -> None:
    network(case)
    found = outcomes(case, "--faults", "scale, zero", "--places", 2)
    assert [item["fault"] for item in found] == ["scale", "zero"] * 2
    assert all(item["is_found"] for item in found)
    assert found == outcomes(case, "--faults", "scale,zero", "--places", 2, "--seed", 0)


def test_integers(case: Case) -> None:
    network(case, dtype=dtypes.INT16)
    found = {item["fault"]: item for item in outcomes(case, "--places", 1)}
    assert set(found) == set(FAULTS)
    assert found["overflow"]["is_found"] is None
    assert found["overflow"]["note"] == "not applicable to this tensor"
    assert all(item["is_found"] for name, item in found.items() if name != "overflow")


def test_missed_fault(case: Case) -> None:
    values = numbers(2, 6, 8) + 10_000
    case.npu("a", values)
    case.npu_golden("a", values)
    (found,) = outcomes(case, "--faults", "zero-point", code=1)
    assert found["is_found"] is False


@pytest.mark.parametrize("layout", ["ND", "NC1HWC0", "FRACTAL_NZ"])
def test_only_the_bytes_of_the_tensor_change(case: Case, layout: str) -> None:
    golden = numbers(1, 20, 3, 5)
    path = case.npu("a", golden, tensor(golden, dtypes.FLOAT16, layout), inputs=(golden,))
    np.save(case.root / "a.1.npy", golden)
    dump, array = read_operator(str(path)), read_operator(str(case.root / "a.1.npy"))
    key = TensorKey("a", Slot.OUTPUT, 1)
    both = side_tensor(key, dump.outputs[1]), side_tensor(key, array.outputs[0])
    pairing = Pairing(OpLabel(0, 0, "Op", "a", "a"), *both, Declared("NCHW", golden.shape))
    before = path.read_bytes()
    (case.root / "copy").mkdir()
    injected = inject(pairing, golden[:, ::-1], str(case.root / "copy"))
    assert injected is not None
    np.testing.assert_array_equal(logical_values(injected), golden[:, ::-1])
    assert path.read_bytes() == before
    after = Path(injected.target.data.source.path).read_bytes()
    start = getattr(pairing.target.data.source, "offset", 0)
    stop = start + pairing.target.data.source.nbytes
    assert (after[:start], after[stop:]) == (before[:start], before[stop:])
    assert after[start:stop] != before[start:stop]


def test_bad_input(case: Case) -> None:
    network(case)
    outcome = run(case.capsys, "selftest", case.target, case.golden, "--faults", "nothing")
    assert outcome.code == 2
    assert "there is no fault 'nothing'; available: scale, offset" in outcome.err
    assert run(case.capsys, "selftest", case.root / "no", case.golden).code == 3
    assert run(case.capsys, "selftest", case.target, case.golden, "--places", "0").code == 2
    assert run(case.capsys, "selftest", case.target, case.golden, "--seed", "-1").code == 2


def test_no_suitable_tensor(case: Case) -> None:
    case.npu("a", np.zeros((4, 5), np.float32))
    case.npu_golden("a", np.zeros((4, 5), np.float32))
    outcome = run(case.capsys, "selftest", case.target, case.golden)
    assert outcome.code == 3
    assert "suitable for fault injection" in outcome.err


def test_every_fault_is_on_the_page() -> None:
    text = (ROOT / "docs" / "commands" / "selftest.md").read_text()
    for fault in FAULTS.values():
        assert f"| `{fault.name}` | {fault.description}" in text
