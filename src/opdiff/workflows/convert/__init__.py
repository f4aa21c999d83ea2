"""Conversion of dump files to files of other tools: `opdiff convert`.

paths ──plan──► jobs, one per file ──work──► read → align → write ──► results
"""
