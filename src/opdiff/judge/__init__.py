"""Judgement of a comparison: a level for each row, the operators at fault, and the cause of each error.

    rows, graph, limits ──network──► operators with their rows
                        ──locate───► a Verdict for each row, and the errors that operators created
                        ──ranking──► operators with created errors, by their share of the output error
                        ──causes───► kind and evidence ──► Finding, …
                        ──coverage─► what was compared, and how well the model's outputs agree ──advice──► sentences

Nothing is loaded and nothing is measured: a saved comparison can be judged again.
"""
