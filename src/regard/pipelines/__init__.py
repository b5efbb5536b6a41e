"""Pipelines: a trained model with its tokenizers, ready to use on text or images."""
