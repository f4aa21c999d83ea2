"""Fault injection: networks of any seed, faults of every kind, and how often the judge names them correctly."""
