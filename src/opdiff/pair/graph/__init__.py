"""Pairing in graph mode: GE operators with FX nodes, or with operators of a run without fusion."""
