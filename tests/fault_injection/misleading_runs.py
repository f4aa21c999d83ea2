"""Runs that mislead as a whole, with the truth about them: no rules, other inputs, two faults, subtle faults, none."""

from __future__ import annotations

import glob
import os
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from fault_injection.faults import inject
from fault_injection.kernels import attend_roughly
from fault_injection.networks import NETWORKS, cancelling
from opdiff.api import CompareOptions
from opdiff.core import dtypes
from opdiff.core.comparison import Mode
from opdiff.sample.device import dump_files, run_device
from opdiff.sample.directory import golden_files, sample_in, target_files, write_files
from opdiff.sample.faults import FAULTS, corrupt_output
from opdiff.sample.faults import inject as inject_all
from opdiff.sample.graph_mode import FAULTY_OPERATOR, write_graph_sample
from opdiff.sample.network import build
from opdiff.workflows.reduce.watch import ReduceOptions, Stop, reduce_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import DeviceOp, SampleNetwork


_SOFTMAX = "layer0/softmax"
# Relative differences of two implementations in float16: in the last bits, and as by fewer bits of the mantissa.
_MOVED_A_LITTLE, _MOVED = 2.0**-12, 2.0**-8
# Types of operators that copy elements.
_COPYING = frozenset({"Cast", "Flatten", "GatherV2", "MaxPoolV3", "Reshape", "TransData", "TransposeD"})


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


def misleading_runs(folder: str, seed: int) -> Iterator[Case]:
    """Yield runs of which a whole part is wrong, or whose errors look like faults."""
    quantized = inject(NETWORKS["quantized"](seed, dtypes.FLOAT16), "scale", 0.5)
    assert quantized is not None
    networks = *faulty_networks(seed), Network("quantized", quantized.network, frozenset(quantized.operators))
    made = {each.name: (each, write_run(os.path.join(folder, each.name), each.network)) for each in networks}
    names = list(made)
    for name, (network, options) in made.items():
        other = made[names[names.index(name) - 1]][1]
        yield Case("rules of another network", name, structs.replace(options, fusion_rules=other.fusion_rules))
        yield Case("golden data of another network", name, structs.replace(options, golden=other.golden))
        yield Case("sides exchanged", name, structs.replace(options, target=options.golden, golden=options.target))
        yield Case("the same folder twice", name, structs.replace(options, golden=options.target, fusion_rules=""))
        yield from _without_rules(f"{folder}/{name}", network, seed)
        yield from _two_faults(f"{folder}/{name}", network, seed)
    yield from _clean_runs(folder, seed)
    yield from _subtle_faults(folder, seed)
    yield from _inner_fault(folder)
    yield from _graph_mode(folder)


def _without_rules(folder: str, network: Network, seed: int) -> Iterator[Case]:
    """Compare with another run of the device: with addresses, without them, and without the culprit."""
    culprits = frozenset(name.replace("/", "_") for name in network.culprits)
    for addresses in ("addresses", "no addresses"):
        options = CompareOptions(f"{folder}/{addresses}", f"{folder}/golden {addresses}")
        for side, each in ((options.target, network.network), (options.golden, _sound(network.network, seed))):
            write_files(side, _dump(each, with_addresses=addresses == "addresses"))
        yield Case(f"without rules, {addresses}", network.name, options, culprits)
        for name in os.listdir(options.target):
            if name.split(".")[1] in culprits:
                os.remove(os.path.join(options.target, name))
        yield Case(f"without rules, {addresses}, culprit missing", network.name, options, culprits)


def _dump(network: SampleNetwork, *, with_addresses: bool) -> dict[str, bytes]:
    run = run_device(network)
    if not with_addresses:
        features = {port: replace(tensor, address=0) for port, tensor in run.features.items()}
        weights = {name: replace(tensor, address=0) for name, tensor in run.weights.items()}
        run = replace(run, features=features, weights=weights)
    return dump_files(network, run)


def _sound(network: SampleNetwork, seed: int) -> SampleNetwork:
    """Return the network of the same name and weights without its fault."""
    for each in (build(), *(make(seed, dtypes.FLOAT16) for make in NETWORKS.values())):
        if [op.name for op in each.device] == [op.name for op in network.device]:
            return each
    raise ValueError("unknown network")


def _two_faults(folder: str, network: Network, seed: int) -> Iterator[Case]:
    """Inject a slight fault early and a large one late: both must be found."""
    first = inject(_sound(network.network, seed), "scale", 0.2)
    assert first is not None
    second = inject(first.network, "zero", 0.75)
    assert second is not None
    options = write_run(f"{folder}-two", second.network)
    culprits = frozenset((*first.operators, *second.operators))
    yield Case("two faults", network.name, options, culprits, culprits - {*first.operators[1:], *second.operators[1:]})


def _clean_runs(folder: str, seed: int) -> Iterator[Case]:
    """Yield runs without a fault that are not equal: other versions, other steps, cancelling branches."""
    for name, make in NETWORKS.items():
        network = make(seed, dtypes.FLOAT16)
        write_files(f"{folder}/{name}-old", target_files(network))
        moved = _moved(network, _MOVED_A_LITTLE)
        options = write_run(f"{folder}/{name}-new", moved)
        versions = CompareOptions(options.target, f"{folder}/{name}-old/npu")
        yield Case("another version of all operators", name, versions)
        with_rules = structs.replace(options, golden=versions.golden, fusion_off_rules=options.fusion_rules)
        yield Case("another version of all operators", f"{name}, with rules", with_rules)
        if name != "quantized":
            # Quantization hides errors of this size.
            coarse = write_run(f"{folder}/{name}-coarse", _moved(network, _MOVED, _COPYING))
            yield Case("another precision of all operators", name, structs.replace(versions, target=coarse.target))
        step = replace(network, device_image=_other_input(network.image))
        first = next(op.name for op in network.device if any(port.op == network.image_name for port in op.inputs))
        yield Case("one step shifted", name, write_run(f"{folder}/{name}-step", step), frozenset({first}))
    for number in range(seed, seed + 3):
        network = cancelling(number, dtypes.FLOAT16)
        yield Case("cancelling branches", str(number), write_run(f"{folder}/cancelling{number}", network))


def _other_input(image: AnyArray) -> AnyArray:
    other: AnyArray = image[..., ::-1].copy()
    return other


def _moved(network: SampleNetwork, part: float, fixed: frozenset[str] = frozenset()) -> SampleNetwork:
    """Return a network whose results differ by this part, except of these types, as another implementation's do."""
    device = (op if op.type in fixed else _moved_operator(op, part) for op in network.device)
    return replace(network, device=tuple(device))


def _moved_operator(op: DeviceOp, part: float) -> DeviceOp:
    if op.outputs[0].dtype.kind is not dtypes.Kind.FLOAT or len(op.outputs) > 1:
        return op
    return corrupt_output(op, partial(_round_differently, seed=len(op.name), part=part))


def _round_differently(x: AnyArray, seed: int, part: float) -> AnyArray:
    noise = np.random.default_rng(seed).normal(0, part, x.shape)
    moved: AnyArray = x * (1 + noise)
    return moved


def _subtle_faults(folder: str, seed: int) -> Iterator[Case]:
    for name in NETWORKS:
        for depth in (0.3, 0.6, 0.9):
            network = NETWORKS[name](seed, dtypes.FLOAT16)
            candidates = [op for op in network.device if op.outputs[0].origin is not None]
            op = candidates[int(depth * len(candidates))]
            device = tuple(corrupt_output(each, _scale_slightly) if each is op else each for each in network.device)
            options = write_run(f"{folder}/{name}{depth}", replace(network, device=device))
            yield Case("subtle fault", f"{name}: {op.name} 1 % too large", options, frozenset({op.name}))
    for number in range(seed, seed + 3):
        network = NETWORKS["transformer"](number, dtypes.FLOAT16)
        rough = partial(attend_roughly, step=0.5)
        device = tuple(replace(op, kernel=rough) if op.name == _SOFTMAX else op for op in network.device)
        options = write_run(f"{folder}/exponential{number}", replace(network, device=device))
        yield Case("subtle fault", "transformer: rough exponential", options, frozenset({_SOFTMAX}))
    for depth in (0.1, 0.5, 0.9):
        faulty = inject(NETWORKS["quantized"](seed, dtypes.FLOAT16), "zero-point", depth)
        assert faulty is not None
        options = write_run(f"{folder}/zero-point{depth}", faulty.network)
        yield Case("subtle fault", f"quantized: zero point {depth}", options, frozenset(faulty.operators))


def _scale_slightly(x: AnyArray) -> AnyArray:
    return x * 1.01


def _inner_fault(folder: str) -> Iterator[Case]:
    """Yield a fault that the outputs do not show; they must be mentioned first."""
    fault = FAULTS["overflow"]
    options = write_run(f"{folder}/inner", inject_all(build(), [fault]))
    culprits = frozenset({fault.operator})
    yield Case("fault that the outputs do not show", "sample", options, culprits, outputs_first=True)


def _graph_mode(folder: str) -> Iterator[Case]:
    made = write_graph_sample(f"{folder}/graph", ranks=2, tokens=2)
    options = CompareOptions(made.target, made.golden, mode=Mode.GRAPH)
    culprits = frozenset({FAULTY_OPERATOR})
    yield Case("graph mode", "two ranks", options, culprits)
    yield Case(
        "graph mode: sides exchanged", "GE and FX", structs.replace(options, target=made.golden, golden=made.target)
    )
    shutil.copytree(made.target, f"{folder}/one-rank")
    ranks = sorted(os.listdir(f"{folder}/one-rank"))
    shutil.rmtree(os.path.join(f"{folder}/one-rank", next(name for name in ranks if "rank1" in name)))
    yield Case(
        "graph mode: one rank missing", "rank 1", structs.replace(options, target=f"{folder}/one-rank"), culprits
    )
    for run in ("first", "second"):
        shutil.copytree(made.golden, f"{folder}/runs/{run}")
    yield Case("graph mode: two FX runs", "one directory", structs.replace(options, golden=f"{folder}/runs"), culprits)
    shutil.copytree(made.target, f"{folder}/reduced")
    _reduce(f"{folder}/reduced")
    yield Case("graph mode: one side reduced", "target", structs.replace(options, target=f"{folder}/reduced"), culprits)
    yield _reordered_and_reduced(f"{folder}/reordered")


def _reordered_and_reduced(folder: str) -> Case:
    """Return a run whose values are in the wrong order, of which only statistics are left."""
    made = write_graph_sample(folder, ranks=1, tokens=1, faulty=False)
    for path in glob.glob(f"{made.golden}/**/mm_1-*.OUTPUT.0.*.npy", recursive=True):
        np.save(path, np.load(path)[::-1])
    _reduce(made.target)
    options = CompareOptions(made.target, made.golden, mode=Mode.GRAPH)
    return Case("graph mode: reordered and reduced", FAULTY_OPERATOR, options, frozenset({FAULTY_OPERATOR}))


def _reduce(folder: str) -> None:
    list(reduce_tree(ReduceOptions(folder, (), settle_s=0), Stop(), lambda _done, _total: None))
