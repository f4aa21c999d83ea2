"""Judging in graph mode: documented criteria per row, findings over tokens."""
