"""The table of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_comparisons import label, pairing, tensor, unpaired_operator, unpaired_tensor
from opdiff.report.mapping_csv import write_mapping

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "OpType,NPUDump,GroundTruth,TensorIndex,NPUDumpPath,GroundTruthPath,MatchRule,Confidence,Reason"


def test_every_kind_of_row(tmp_path: Path) -> None:
    rows = (
        pairing(confidence=0.5),
        pairing(),
        unpaired_tensor(target=tensor(path="/target/other")),
        unpaired_operator(of=label("=op", "*", 4, "")),
    )
    write_mapping(rows, str(tmp_path / "mapping.csv"))
    assert (tmp_path / "mapping.csv").read_bytes().decode().split("\r\n") == [
        f"Index,{HEADER}",
        "3,Conv2D,conv1,conv1,conv1:output:0,/target/file,/golden/file,named in the rule file,0.500000,",
        "3,Conv2D,conv1,conv1,conv1:output:0,/target/file,/golden/file,named in the rule file,1.000000,",
        "3,Conv2D,conv1,conv1,conv1:input:0,/target/other,NaN,,,no golden file",
        "4,NaN,'=op,*,NaN,NaN,NaN,,,no dump file",
        "",
    ]


def test_sequence_column(tmp_path: Path) -> None:
    write_mapping((unpaired_operator(),), str(tmp_path / "mapping.csv"), sequence=True)
    assert (tmp_path / "mapping.csv").read_text().splitlines() == [
        f"Index,OpSequence,{HEADER}",
        "3,12,Conv2D,conv1,conv1,NaN,NaN,NaN,,,no dump file",
    ]
