"""The ways through the stages; only these know the order."""
