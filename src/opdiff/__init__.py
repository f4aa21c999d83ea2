"""Find the operator that lost your accuracy: read, convert and compare Ascend NPU operator dumps."""

__version__ = "0.1.0"
