"""Compare two dumps: read, pair, align, measure, judge, report."""
