"""Readers of rule files and graph texts."""
