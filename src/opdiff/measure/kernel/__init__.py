"""The native measuring kernel, called through ctypes."""
