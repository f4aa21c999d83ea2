"""Golden data: the original model run on the CPU, every output of every operator in a file of its own."""
