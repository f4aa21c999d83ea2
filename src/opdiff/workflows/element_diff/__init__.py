"""Compare one tensor element by element and search for an explanation."""
