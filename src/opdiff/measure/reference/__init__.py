"""The definition of the kernel's sums in NumPy; also the fallback where the kernel is missing."""
