"""Fused Triton kernels for training on a GPU, each beside the equation that it computes."""
