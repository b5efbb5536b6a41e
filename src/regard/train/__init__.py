"""From batches to a trained bundle."""
