"""Text processing: tokenizers, special ids, words, tags, and token labels for display."""
