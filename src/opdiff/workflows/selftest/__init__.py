"""Fault injection into copies of the user's dumps: `opdiff selftest`.

    compare ──► rows within limits ──choose──► tensors
    tensor, fault ──inject──► copy of one file ──read, align, measure──► new row ──► found? named correctly?

The user's files are only read. Copies live in a temporary directory.
"""
