"""Order of findings, some of which are proved by replay."""

from __future__ import annotations

import pytest

from opdiff.core.judgement import ErrorKind, Finding, Judgement, Level
from opdiff.core.replay import Replay, ReplayedOutput, ReplayVerdict
from opdiff.judge.replay_verdicts import with_replays

GUILTY = Replay(
    "b", "Conv2D", ReplayVerdict.GUILTY, outputs=(ReplayedOutput("b:output:0", "b:0", error=0.1, limit=0.001),)
)


def finding(name: str, share: float | None) -> Finding:
    return Finding(name, "Conv2D", f"{name}:output:0", Level.WRONG, ErrorKind.SCALE, share=share)


@pytest.mark.parametrize(
    ("shares", "order"),
    [((0.9, 0.1), "ab"), ((0.5, 0.5), "ba"), ((None, 0.1), "ba"), ((0.9, None), "ba"), ((None, None), "ba")],
)
def test_proved_findings_come_after_larger_shares_only(shares: tuple[float | None, float | None], order: str) -> None:
    findings = (finding("a", shares[0]), finding("b", shares[1]))
    judged = with_replays(Judgement("", (), findings, worst="a"), (), (GUILTY,))
    assert "".join(found.operator for found in judged.findings) == order
    assert judged.worst == order[0]
    assert [found.is_proved for found in judged.findings] == [name == "b" for name in order]
