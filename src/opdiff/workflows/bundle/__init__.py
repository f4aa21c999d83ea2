"""Everything about one operator in one archive: what it read and wrote, what is expected, how to compute it."""
