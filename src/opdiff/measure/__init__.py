"""Measuring: statistics of one tensor, metrics of two.

codes, codes ──kernel or reference──► Sums ──metrics──► Metrics
"""
