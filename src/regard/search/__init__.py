"""From log-probabilities to sequences. Search never asks what the model is."""
