"""Export to a page that translates in the browser."""
