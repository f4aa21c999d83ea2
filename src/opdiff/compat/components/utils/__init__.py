"""See `acc_cmp`."""
