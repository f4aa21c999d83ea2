"""Judgement of a comparison: a level for each row, the operators at fault, and the cause of each error.

`comparison_judgement.judge` judges a comparison: offline it is one network, in graph mode each unit is one (`graph`).
`judge_network` in the same module judges a network:

    rows, graph, limits ──network──► operators with their rows
                        ──locate───► a Verdict for each row, and the errors that operators created
                        ──_rank────► operators with created errors, by their share of the output error
                        ──causes───► a Finding for each, with kind and evidence
                        ──coverage─► what was compared, and how well the model's outputs agree

`advice` puts the result into sentences, `remedies` into files for compilers. Besides, `replay_verdicts` judges findings
by operators that were computed again, `steps` judges a chain of stages, `task_accuracy` the accuracy of two runs.

Nothing is loaded and nothing is measured: a saved comparison can be judged again.
"""
