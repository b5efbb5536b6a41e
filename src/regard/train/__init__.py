"""Training: from data files and a recipe to a model directory."""
