"""Arrays to numbers: what a tensor's values are like, and what two tensors have to do with each other.

    codes, codes ──kernel, divergence──► Sums ──metrics──► Metrics ──documented──► texts

Nothing is imported here, so that `documented`, which the command line needs at once, does not load NumPy.
"""
