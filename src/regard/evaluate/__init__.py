"""Metrics, validation during training and evaluation on test data."""
