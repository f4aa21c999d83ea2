"""Conversion of dump files to files of other tools: `opdiff convert`.

paths ──plan──► jobs, one per file ──work──► read → align → write ──► results
"""

from opdiff.workflows.convert.plan import ConvertJob, ConvertOptions, ConvertPlan, plan_conversion
from opdiff.workflows.convert.work import ConvertResult, Failure, convert_file, failed

__all__ = [
    "ConvertJob",
    "ConvertOptions",
    "ConvertPlan",
    "ConvertResult",
    "Failure",
    "convert_file",
    "failed",
    "plan_conversion",
]
