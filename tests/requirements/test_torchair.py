"""`msprobe compare --mode torchair`: GE against FX, GE against GE with fusion off, three modes of data."""
