"""Everything about one operator in one archive: its inputs and outputs, the expected outputs, and how to compute it."""
