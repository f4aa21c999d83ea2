"""Describe a dump file or directory and check it."""
