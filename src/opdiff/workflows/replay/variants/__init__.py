"""Variants of a computation, each with one thing changed: what the device may have done instead of what it should."""
