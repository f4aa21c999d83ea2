"""Proof by replay: operators computed again on the CPU, from the inputs that they had on the NPU.

Entries: `pipeline.replay` for a dump, `graph_replay.replay_graph_dump` for a dump of graph mode, and `proof.prove` and
`graph_proof.prove_units` for the suspects of a comparison.

options, proof ──► pipeline ──► dumped_values ──┬──► operator_replay ──► own_error ──► causes ──► Replay
                                                └──► type_replay ───────────┘

- Which operators: `options`, `proof`, `graph_proof`.
- What was dumped: `pipeline`, `dumped_values`, `golden_values`.
- By the original model: `encoded_model`, `attributes`, `original_types`, `arithmetic`, `operator_replay`.
- Without the model, by types and attributes: `type_replay`, `fused_types`, `types/`.
- Graph mode: `graph_units`, `graph_replay`, `compiled_graph`.
- The error and its cause: `own_error`, `causes`, `variants/`.
- On clusters: `on_workers`.
"""
