"""The parts of which models are made. Shapes: B batch, S source, T target, H heads, D d_model, K d_head."""
