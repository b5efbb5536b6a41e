"""Export to Hugging Face transformers."""
