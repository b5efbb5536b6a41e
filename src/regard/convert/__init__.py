"""Export of models to other formats, and import from them."""
