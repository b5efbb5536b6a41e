"""One file per HTTP API: the page's own (v1, trace), LibreTranslate, OpenAI."""
