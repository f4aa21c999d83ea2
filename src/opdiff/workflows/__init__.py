"""The commands as ways through the stages; only workflows know the order of the stages."""
