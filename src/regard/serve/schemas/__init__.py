"""Request and response bodies: one file per HTTP API."""
