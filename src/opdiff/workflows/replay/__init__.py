"""Proof by replay: operators computed again on the CPU, from the inputs that they had on the NPU."""
