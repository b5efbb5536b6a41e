"""Models over HTTP: the page's own API, the APIs of LibreTranslate and OpenAI, and the page."""
