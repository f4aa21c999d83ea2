"""Readers of graph-mode dump trees."""
