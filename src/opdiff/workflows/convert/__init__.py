"""Conversion of dump files to files of other tools: `opdiff convert`.

paths ──plan──► jobs, one per file ──work──► read → align → write ──► results
"""

from opdiff.workflows.convert.plan import ConvertJob, ConvertOptions, ConvertPlan, find_conversions, plan_conversion
from opdiff.workflows.convert.work import ConvertResult, Failure, convert_all, convert_file

__all__ = [
    "ConvertJob",
    "ConvertOptions",
    "ConvertPlan",
    "ConvertResult",
    "Failure",
    "convert_all",
    "convert_file",
    "find_conversions",
    "plan_conversion",
]
