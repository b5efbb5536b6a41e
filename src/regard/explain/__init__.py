"""The computations of the lectures, worked out step by step with the functions that the models use."""
