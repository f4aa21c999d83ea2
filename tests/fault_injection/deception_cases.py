"""Inputs of comparisons with the truth about them, and networks with one fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fault_injection.faults import inject
from fault_injection.networks import NETWORKS
from opdiff.api import CompareOptions
from opdiff.core import dtypes
from opdiff.sample.directory import golden_files, sample_in, target_files, write_files
from opdiff.sample.faults import FAULTS
from opdiff.sample.faults import inject as inject_all
from opdiff.sample.network import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.sample.graph import SampleNetwork


class Case(NamedTuple):
    """Inputs of one comparison, and the truth about them.

    Attributes:
        group: kind of deception.
        name: description of the inputs.
        options: arguments of the comparison.
        culprits: operators of which the first finding must name one; empty if nobody is at fault.
        others: further operators that must be among the findings.
        outputs_first: the model's outputs match, and the first sentence must not blame an operator.
    """

    group: str
    name: str
    options: CompareOptions
    culprits: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    outputs_first: bool = False


class Network(NamedTuple):
    """A network with a fault, the operators of which naming one is right, and those with smaller faults."""

    name: str
    network: SampleNetwork
    culprits: frozenset[str]
    others: frozenset[str] = frozenset()


def faulty_networks(seed: int) -> Iterator[Network]:
    """Yield the sample and two other networks, each with a fault in the middle."""
    pool, others = FAULTS["permuted"], [FAULTS["overflow"], FAULTS["wrong-scale"]]
    small = frozenset(fault.operator for fault in others)
    yield Network("sample", inject_all(build(), [pool, *others]), frozenset({pool.operator}), small)
    for name in ("residual", "transformer"):
        faulty = inject(NETWORKS[name](seed, dtypes.FLOAT16), "permuted", 0.5)
        assert faulty is not None
        yield Network(name, faulty.network, frozenset(faulty.operators))


def write_run(folder: str, network: SampleNetwork) -> CompareOptions:
    write_files(folder, golden_files(network) | target_files(network))
    files = sample_in(folder)
    return CompareOptions(files.target, files.golden, files.rules)
