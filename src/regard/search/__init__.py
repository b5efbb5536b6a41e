"""Search: from next-token probabilities to sequences, for any model."""
