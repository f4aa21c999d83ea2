"""Compare a chain of stages of one model: which step lost the accuracy."""
