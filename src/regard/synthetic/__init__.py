"""Synthetic training data: back-translation, rounds of it, and sequence-level distillation."""
