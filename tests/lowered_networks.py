"""Networks for `lowered_graphs`: one for each way in which lowering moves, drops or adds arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from lowered_graphs import Network


def mlp(net: Network) -> None:
    x, w, b, w2, b2 = (net.placeholder(*shape) for shape in ((6, 24), (32, 24), (32,), (10, 32), (10,)))
    hidden = net.call("relu", net.call("addmm", b, x, net.call("t", w)))
    scaled = net.call("mul", net.call("addmm", b2, hidden, net.call("t", w2)), 0.5)
    net.call("_softmax", net.call("add", scaled, 1.0), -1)


def square_layers(net: Network) -> None:
    """Weights, biases and activations of the same extent, so that shapes do not distinguish them."""
    x, *weights = (net.placeholder(8, 8) for _ in range(5))
    biases = [net.placeholder(8) for _ in range(2)]
    for weight, bias in zip(weights[:2], biases, strict=True):
        x = net.call("addmm", bias, x, net.call("t", weight))
    net.call("mm", weights[2], net.call("mm", x, weights[3]))


def linear_kept(net: Network) -> None:
    x, w, b = net.placeholder(2, 5, 8), net.placeholder(8, 8), net.placeholder(8)
    net.call("relu", net.call("linear", x, w, b))


def baddbmm(net: Network) -> None:
    c, a, b = (net.placeholder(3, 4, 4) for _ in range(3))
    net.call("tanh", net.call("baddbmm", c, a, b))


def attention(net: Network) -> None:
    x = net.placeholder(2, 7, 32)
    gamma, beta = net.placeholder(32), net.placeholder(32)
    weights = [(net.placeholder(32, 32), net.placeholder(32)) for _ in range(4)]
    normal = net.call("native_layer_norm", x, [32], gamma, beta, 1e-5)[0]
    heads = []
    for index, (weight, bias) in enumerate(weights[:3]):
        flat = net.call("addmm", bias, net.call("view", normal, [14, 32]), net.call("t", weight))
        split = net.call("view", net.call("view", flat, [2, 7, 32]), [2, 7, 4, 8])
        head = net.call("transpose", split, 1, 2)
        if index == 1:
            head = net.call("transpose", head, 2, 3)
        shape = list(head.array.shape)
        copy = net.call("clone", net.call("expand", head, shape))
        heads.append(net.call("_unsafe_view", copy, [8, *shape[2:]]))
    scores = net.call("view", net.call("bmm", heads[0], heads[1]), [2, 4, 7, 7])
    weighted = net.call("_softmax", net.call("div", scores, 2.8284), -1)
    flat = net.call("view", net.call("expand", weighted, [2, 4, 7, 7]), [8, 7, 7])
    mixed = net.call("view", net.call("bmm", flat, heads[2]), [2, 4, 7, 8])
    joined = net.call("clone", net.call("transpose", mixed, 1, 2))
    back = net.call("view", net.call("_unsafe_view", joined, [2, 7, 32]), [14, 32])
    out = net.call("addmm", weights[3][1], back, net.call("t", weights[3][0]))
    net.call("add", x, net.call("view", out, [2, 7, 32]))


def einsum(net: Network) -> None:
    """`bhqd,bhkd->bhqk` and `bij,bjk->bik`, as they are decomposed."""
    q, k = net.placeholder(2, 3, 5, 5), net.placeholder(2, 3, 5, 5)
    left = net.call("view", q, [6, 5, 5])
    right = net.call("view", net.call("permute", k, [0, 1, 3, 2]), [6, 5, 5])
    right = net.call("_unsafe_view", net.call("clone", net.call("permute", k, [0, 1, 3, 2])), [6, 5, 5])
    product = net.call("bmm", left, right)
    net.call("permute", net.call("view", product, [2, 3, 5, 5]), [0, 2, 1, 3])
    net.call("relu", net.call("permute", net.call("view", product, [2, 3, 5, 5]), [0, 2, 1, 3]))


def rotary(net: Network) -> None:
    q, k = net.placeholder(1, 4, 6, 8), net.placeholder(1, 4, 6, 8)
    cos, sin = net.placeholder(6, 8), net.placeholder(6, 8)
    tables = [net.call("unsqueeze", net.call("unsqueeze", table, 0), 0) for table in (cos, sin)]
    for tensor in (q, k):
        first = net.call("slice", tensor, 3, 0, 4)
        second = net.call("slice", tensor, 3, 4, 2**63 - 1)
        turned = net.call("cat", [net.call("neg", second), first], -1)
        left = net.call("mul", tensor, tables[0])
        net.call("add", left, net.call("mul", turned, tables[1]))


def cache_update(net: Network) -> None:
    """Keys and values of the same shape, written to caches of the same shape, which are assigned at the end."""
    keys, values = net.placeholder(2, 1, 4), net.placeholder(2, 1, 4)
    first, second = net.placeholder(2, 16, 4), net.placeholder(2, 16, 4)
    new_first = net.call("slice_scatter", first, keys, 1, 5, 6)
    new_second = net.call("slice_scatter", second, values, 1, 5, 6)
    scores = net.call("bmm", keys, net.call("permute", new_first, [0, 2, 1]))
    net.call("bmm", net.call("_softmax", scores, -1), new_second)
    net.call("copy_", first, new_first)
    net.call("copy_", second, new_second)


def zero_caches(net: Network) -> None:
    """Large caches with one non-zero row; samples before and after the update are equal."""
    rows = [net.placeholder(1, 8), net.placeholder(1, 8)]
    caches = [net.placeholder(2048, 8, value=np.zeros((2048, 8))) for _ in range(2)]
    position = net.placeholder(1, dtype="int64", value=[777])
    for cache, row in zip(caches, rows, strict=True):
        updated = net.call("index_put", cache, [position], row)
        net.call("mul", updated, 2.0)
        net.call("copy_", cache, updated)


def scatters(net: Network) -> None:
    x, src = net.placeholder(4, 6), net.placeholder(4, 6)
    index = net.placeholder(4, 6, dtype="int64", value=np.arange(24).reshape(4, 6) % 6)
    where = net.placeholder(3, dtype="int64", value=[0, 2, 3])
    rows = net.placeholder(3, 6)
    made = net.call("scatter", x, 1, index, src)
    made = net.call("scatter_add", made, 1, index, src)
    made = net.call("index_add", made, 0, where, rows)
    made = net.call("select_scatter", made, net.call("select", src, 0, 1), 0, 2)
    net.call("index", made, [where])


def experts(net: Network) -> None:
    """Routing of tokens to experts by their scores."""
    x, gate = net.placeholder(6, 8), net.placeholder(4, 8)
    up = [net.placeholder(8, 8) for _ in range(4)]
    down = [net.placeholder(8, 8) for _ in range(4)]
    scores = net.call("_softmax", net.call("mm", x, net.call("t", gate)), -1)
    weights, chosen = net.call("topk", scores, 2, -1)
    weights = net.call("div", weights, net.call("sum", weights, [-1], 1))
    total = net.call("full", [6, 8], 0.0)
    for number in range(4):
        picked = net.call("eq", chosen, number)
        share = net.call("sum", net.call("where", picked, weights, 0.0), [-1], 1)
        hidden = net.call("silu", net.call("mm", x, net.call("t", up[number])))
        out = net.call("mm", hidden, net.call("t", down[number]))
        total = net.call("add", total, net.call("mul", out, share))


def recurrence(net: Network) -> None:
    """A long short-term memory, unrolled; both states begin with zeros."""
    x = net.placeholder(3, 2, 8)
    weight_in, weight_back = net.placeholder(32, 8), net.placeholder(32, 8)
    bias_in, bias_back = net.placeholder(32), net.placeholder(32)
    hidden, cell = (net.placeholder(2, 8, value=np.zeros((2, 8))) for _ in range(2))
    for step in net.call("unbind", x, 0):
        first = net.call("addmm", bias_in, step, net.call("t", weight_in))
        second = net.call("addmm", bias_back, hidden, net.call("t", weight_back))
        gates = net.call("split", net.call("add", first, second), 8, 1)
        keep, take, give = (net.call("sigmoid", gates[number]) for number in (0, 1, 3))
        fresh = net.call("mul", take, net.call("tanh", gates[2]))
        cell = net.call("add", net.call("mul", keep, cell), fresh)
        hidden = net.call("mul", give, net.call("tanh", cell))


def in_place(net: Network) -> None:
    x, step = net.placeholder(4, 4), net.placeholder(4, 4)
    total = net.call("add", x, step)
    grown = net.call("relu", total)
    net.call("copy_", x, total)
    net.call("copy_", step, grown)


def view_chain(net: Network) -> None:
    x, y = net.placeholder(4, 6, 6), net.placeholder(6, 4, 6)
    turned = net.call("permute", x, [1, 0, 2])
    net.call("add", turned, y)
    flat = net.call("view", net.call("view", x, [24, 6]), [4, 36])
    net.call("relu", net.call("t", flat))
    net.call("tanh", net.call("transpose", net.call("view", x, [2, 2, 6, 6]), 1, 2))
    net.call("sigmoid", net.call("view", net.call("view", x, [144]), [4, 6, 6]))


def same_shapes(net: Network) -> None:
    """Nodes with several arguments of the same shape."""
    a, b, c = (net.placeholder(5, 5) for _ in range(3))
    condition = net.placeholder(5, 5, dtype="bool", value=net.random.integers(0, 2, (5, 5)))
    parts = [
        net.call("sub", a, b),
        net.call("rsub", a, c),
        net.call("addcmul", a, b, c),
        net.call("lerp", c, a, b),
        net.call("where", condition, b, c),
        net.call("add", b, c, alpha=2.0),
    ]
    net.call("cat", [c, a, b, *parts], 1)
    net.call("stack", [b, c], 0)


def same_updates(net: Network) -> None:
    """Bounds and updates of the shape of the tensor that is changed."""
    a, b, c, rows = (net.placeholder(5, 5) for _ in range(4))
    where = net.placeholder(5, dtype="int64", value=[3, 0, 4, 1, 2])
    net.call("clamp", a, b, c)
    net.call("index_add", c, 0, where, rows)


def unlisted(net: Network) -> None:
    """Two inputs of the same shape for a node of unknown type, paired by values only."""
    x, y = net.placeholder(6, 6), net.placeholder(6, 6)
    net.call("relu", net.call("mix", x, y))


def norms(net: Network) -> None:
    x = net.placeholder(2, 8, 4, 4)
    parameters = [net.placeholder(8) for _ in range(4)]
    normal = net.call("native_group_norm", x, parameters[0], parameters[1], 2, 8, 16, 4, 1e-5)
    flat = net.call("view", normal[0], [32, 8])
    net.call("native_layer_norm", flat, [8], parameters[2], parameters[3], 1e-5)
    net.call("add", normal[1], normal[2])


def orders(net: Network) -> None:
    x = net.placeholder(6, 6)
    values, indices = net.call("topk", x, 3, 0)
    net.call("gather", x, 0, indices)
    net.call("sort", values, 0)
    best, position = net.call("max", x, 1)
    net.call("embedding", x, position)
    net.call("add", best, 1.0)


def pooled(net: Network) -> None:
    """GE has values where FX has indices, under the name of the indices."""
    x = net.placeholder(1, 2, 6, 6)
    values, _ = net.call("max_pool2d_with_indices", x, [2, 2])
    net.call("relu", values)


def unused_buffer(net: Network) -> None:
    """The graph has a copy of its input under the name of a buffer that FX computes."""
    x = net.placeholder(4, 6)
    made, _ = net.call("log_sigmoid_forward", x)
    net.call("add", made, net.call("tanh", x))


def zero_biases(net: Network) -> None:
    """Parameters of zeros, after results of the same content."""
    x, biases = net.placeholder(4, 8), [net.placeholder(8, value=np.zeros(8)) for _ in range(2)]
    x = net.call("add", x, net.call("full", [8], 0.0))
    for bias in biases:
        x = net.call("addmm", bias, x, net.call("t", net.placeholder(8, 8)))
    net.call("add", x, biases[1])


def saved_transposes(net: Network) -> None:
    """A tensor and its transpose are graph inputs, as in the graph of gradients."""
    x, y = net.placeholder(5, 5), net.placeholder(5, 5)
    turned = net.placeholder(5, 5, value=x.array.T)
    net.call("mm", y, net.call("t", turned))
    net.call("mm", y, net.call("t", x))
    net.call("mul", x, 2.0)


def convolution(net: Network) -> None:
    x, weight, bias = net.placeholder(2, 4, 9), net.placeholder(6, 4, 3), net.placeholder(6)
    net.call("relu", net.call("convolution", x, weight, bias))


def no_effect(net: Network) -> None:
    """Nodes without effect on graph inputs and results; one has no effect by chance."""
    x, y = net.placeholder(4, 4, value=np.arange(16).reshape(4, 4) + 1.0), net.placeholder(4, 4)
    whole = net.call("slice", net.call("expand", x, [4, 4]), 0, 0, 2**63 - 1)
    positive = net.call("relu", whole)
    total = net.call("expand", net.call("add", positive, y), [4, 4])
    net.call("mul", total, net.call("expand", y, [4, 4]))


def converted(net: Network) -> None:
    x, w = net.placeholder(4, 6, dtype="float16"), net.placeholder(6, dtype="float32")
    wide = net.call("_to_copy", x, dtype="float32")
    mean = net.call("mean", net.call("pow", wide, 2), [-1], 1)
    normal = net.call("mul", wide, net.call("rsqrt", net.call("add", mean, 1e-6)))
    narrow = net.call("_to_copy", normal, dtype="float16")
    net.call("mul", narrow, w)


def keyword_inputs(net: Network) -> None:
    """A tensor passed by keyword is in no FX file."""
    x, y = net.placeholder(4, 4), net.placeholder(4, 4)
    net.call("relu", net.call("add", x, b=y))


def unnamed(net: Network) -> None:
    """A node whose results have no names; its inputs must not be paired with arguments of its readers."""
    x, y, z = (net.placeholder(4, 4) for _ in range(3))
    inner = net.call("add", x, y, named=False)
    net.call("add", inner, z)


NETWORKS: dict[str, Callable[[Network], Any]] = {
    network.__name__: network
    for network in (
        mlp, square_layers, linear_kept, baddbmm, attention, einsum, rotary, cache_update, zero_caches, scatters,
        experts, recurrence, in_place, view_chain, same_shapes, same_updates, unlisted, norms, orders, pooled,
        unused_buffer, zero_biases, saved_transposes, convolution, no_effect, converted, keyword_inputs, unnamed,
    )
}  # fmt: skip
HALF = ("mlp", "square_layers", "attention", "rotary", "recurrence", "experts", "same_shapes")
"""Networks that are lowered differently in float16."""


def random_network(net: Network, steps: int = 25) -> None:
    """Operators in random order on tensors of the same shape, so that shapes do not distinguish them."""
    size = 4
    pool = [net.placeholder(size, size) for _ in range(5)]
    vectors = [net.placeholder(size) for _ in range(3)]
    index = net.placeholder(size, size, dtype="int64", value=net.random.integers(0, size, (size, size)))

    def pick() -> Any:
        return pool[net.random.integers(0, len(pool))]

    def vector() -> Any:
        return vectors[net.random.integers(0, len(vectors))]

    makers: list[Callable[[], Any]] = [
        lambda: net.call("add", pick(), pick()),
        lambda: net.call("sub", pick(), pick()),
        lambda: net.call("mul", pick(), 0.5),
        lambda: net.call("mul", pick(), pick()),
        lambda: net.call("tanh", pick()),
        lambda: net.call("relu", pick()),
        lambda: net.call("t", pick()),
        lambda: net.call("permute", pick(), [1, 0]),
        lambda: net.call("view", net.call("clone", pick()), [size, size]),
        lambda: net.call("view", net.call("view", net.call("tanh", pick()), [size * size]), [size, size]),
        lambda: net.call("expand", pick(), [size, size]),
        lambda: net.call("clone", net.call("t", pick())),
        lambda: net.call("mm", pick(), net.call("t", pick())),
        lambda: net.call("addmm", vector(), pick(), net.call("t", pick())),
        lambda: net.call("addmm", pick(), pick(), pick()),
        lambda: net.call("gather", pick(), 1, index),
        lambda: net.call("scatter", pick(), 0, index, pick()),
        lambda: net.call("where", net.call("gt", pick(), pick()), pick(), pick()),
        lambda: net.call("native_layer_norm", pick(), [size], vector(), vector(), 1e-5)[0],
        lambda: net.call("topk", pick(), size, 0)[0],
        lambda: net.call("max", pick(), 1, 1)[0],
        lambda: net.call("_softmax", pick(), -1),
        lambda: net.call("addcmul", pick(), pick(), pick()),
        lambda: net.call("mix", pick(), pick()),
        lambda: net.call("cat", net.call("split", pick(), 2, 0), 0),
        lambda: net.call("_to_copy", pick()),
        lambda: net.call("slice", pick(), 0, 0, 2**63 - 1),
        lambda: net.call("full", [size, size], 1.0),
        lambda: net.call("slice_scatter", pick(), net.call("slice", pick(), 0, 1, 2), 0, 1, 2),
    ]
    for _ in range(steps):
        made = makers[net.random.integers(0, len(makers))]()
        is_alike = made.array.shape == (size, size) and made.array.dtype == pool[0].array.dtype
        if is_alike and np.abs(made.array).max() < 1e3:
            pool.append(made)
    net.call("sum", pick(), [0, 1])
