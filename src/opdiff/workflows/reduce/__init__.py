"""Replacement of dumps by tensor statistics: `opdiff reduce`, which frees space while a model is still dumping.

    tree ──plan──► finished files ──taken──► private names ──work──► verified reduced file ──► original removed

No file is removed before its reduced form is on disk and verified. See docs/commands/reduce.md and
docs/formats/reduced-files.md.
"""
