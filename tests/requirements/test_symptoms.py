"""Accuracy problems of models, and what they usually come from."""
