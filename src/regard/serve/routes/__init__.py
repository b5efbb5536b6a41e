"""One file per HTTP API: the page's own, traces, LibreTranslate, OpenAI."""
