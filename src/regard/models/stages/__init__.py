"""Every intermediate value of a model on one input, block by block, with the operation that computes it."""
