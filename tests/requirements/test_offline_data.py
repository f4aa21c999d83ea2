"""`msprobe compare -m offline_data`: options, paths and the result table."""
