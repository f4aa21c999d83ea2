"""A comparison, made readable: tables for spreadsheets, JSON for programs, lines for the terminal.

Reports change nothing and measure nothing. They take a `Comparison`, or one that was saved and loaded again.
"""

from __future__ import annotations

from opdiff.report.columns import MetricColumn
from opdiff.report.csv_table import ReportColumns, write_csv
from opdiff.report.file_names import (
    batch_file_name,
    mapping_file_name,
    result_file_name,
    write_new,
)
from opdiff.report.rows import ReportRow, SavedComparison, Side, saved
from opdiff.report.saved_json import load, save
from opdiff.report.summary_text import summary_lines

__all__ = [
    "MetricColumn",
    "ReportColumns",
    "ReportRow",
    "SavedComparison",
    "Side",
    "batch_file_name",
    "load",
    "mapping_file_name",
    "result_file_name",
    "save",
    "saved",
    "summary_lines",
    "write_csv",
    "write_new",
]
