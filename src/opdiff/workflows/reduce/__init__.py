"""Dumps to figures: the way of `opdiff reduce`, which frees space while a model is still dumping.

    tree ──plan──► files that are finished ──work──► reduced file, verified ──► the original is removed

Nothing is removed before its reduced form is on disk and was read back. See docs/formats/reduced-files.md.
"""
