"""Readers of models of other programs."""
