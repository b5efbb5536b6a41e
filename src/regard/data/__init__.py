"""Text pairs to batches of ids."""
