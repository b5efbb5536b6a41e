"""Export to Argos Translate."""
