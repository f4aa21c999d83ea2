"""Arrays to numbers: what a tensor's values are like."""
