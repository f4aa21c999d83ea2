"""Tensors to files: names of results and the forms in which they are written. See docs/commands/convert.md."""
