"""Data files, tokenised stores and batches."""
