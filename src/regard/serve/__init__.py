"""Models behind HTTP: an API that existing clients speak, and a page on which to see a model think."""
