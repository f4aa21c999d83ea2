"""Files that declare how tensors are divided among ranks.

ranks = [0, 1, 2, 3]                # that share tensors, in the order of their parts; all, if left out

[[shard]]
tensor = "MatMul_3:output:0"        # or an operator alone; `*` stands for any characters
join = "concat"                     # or "add" (partial sums), or "copy"
axis = 1                            # of the golden tensor
blocks = 1                          # 3 for a projection to query, key and value, each of which is divided
"""

from __future__ import annotations

import msgspec

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.shards import ShardRules
from opdiff.read.toml_file import read_toml


def read_shards(path: str) -> ShardRules:
    """Read a file of the form above.

    Raises:
        InputError: it cannot be read, or has another form.
    """
    try:
        rules = msgspec.convert(read_toml(path), ShardRules)
    except msgspec.ValidationError as error:
        raise InputError(path, because("rules.not_shards", error=str(error))) from error
    if len(set(rules.ranks)) < len(rules.ranks):
        raise InputError(path, because("rules.rank_twice"))
    if any(rule.blocks < 1 for rule in rules.shard):
        raise InputError(path, because("rules.blocks_at_least_one"))
    return rules
