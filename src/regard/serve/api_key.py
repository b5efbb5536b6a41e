"""The field `api_key` of LibreTranslate's API, in which its clients send the token."""

import json
from urllib.parse import parse_qs

from regard.serve.form import open_form
from regard.serve.request_head import RequestHead


async def find_api_key(head: RequestHead, body: bytes) -> str:
    """Return the field of a JSON object, a form or the query; empty if there is none."""
    content_type = head.header("content-type")
    key: object = None
    try:
        if "json" in content_type.lower():
            tree = json.loads(body)
            key = tree.get("api_key") if isinstance(tree, dict) else None
        else:
            async with open_form(content_type, body) as form:
                key = form.get("api_key")
    except (ValueError, RecursionError):  # a malformed body has no key
        pass
    key = key or parse_qs(head.query).get("api_key", [""])[0]
    return key if isinstance(key, str) else ""
