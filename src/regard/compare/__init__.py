"""Comparisons: several recipes trained under the same budget, and layers measured by sequence length."""
