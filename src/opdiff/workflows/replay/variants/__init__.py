"""Variants of a computation, each with one change: what the device may have computed by mistake."""
