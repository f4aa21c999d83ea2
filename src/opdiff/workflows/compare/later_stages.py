"""The stages that follow the measuring. Their modules are imported while the kernel measures, which saves that time."""

from opdiff.report.html_page import write_html
from opdiff.workflows.compare.judging import judge_inputs
from opdiff.workflows.compare.outputs import write_outputs
from opdiff.workflows.compare.replays import replay_suspects

__all__ = ["judge_inputs", "replay_suspects", "write_html", "write_outputs"]
