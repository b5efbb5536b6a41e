"""Building blocks of models. Shapes: B batch, S source, T target, H heads, D d_model, K d_head."""
