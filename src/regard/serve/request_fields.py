"""The fields of a request to LibreTranslate's API, which clients send as JSON, as a form or in the query."""

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from regard.serve.errors import ApiError
from regard.serve.form import open_form
from regard.serve.schemas.base import Body

_LISTS = ("q",)
"""Fields that may occur several times in a form"""


def invalid_request(reason: str) -> ApiError:
    return ApiError(400, "Invalid request", f"Invalid request: {reason}")


async def read_fields(request: Request, kind: type[Body]) -> Body:
    """Read the body of a request, or its query, as a body of this kind."""
    fields = await _read(request)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if not fields.get(name):
            raise invalid_request(f"missing {name} parameter") from None
        expected = {"q": "must be text, or a list of texts", "alternatives": "parameter is not a number"}
        raise invalid_request(f"{name} {expected.get(name, 'must be text')}") from None


async def _read(request: Request) -> dict[str, object]:
    """Return the fields. Those in the query take the place of those in a form, as with LibreTranslate."""
    content_type = request.headers.get("content-type", "")
    try:
        if "json" in content_type.lower():
            fields = await request.json()
            if not isinstance(fields, dict):
                raise ApiError(400, "Invalid request", "Invalid JSON format")
            return fields
        async with open_form(content_type, await request.body()) as form:
            return {**_values(form), **_values(request.query_params)}
    except ValueError:
        raise invalid_request("the body cannot be read") from None


def _values(fields: ImmutableMultiDict[str, object]) -> dict[str, object]:
    """Return the texts of a form, with line breaks as in JSON; files are left out."""
    values: dict[str, object] = {}
    for name in fields:
        texts = [value.replace("\r\n", "\n") for value in fields.getlist(name) if isinstance(value, str)]
        if texts:
            values[name] = texts if name in _LISTS and len(texts) > 1 else texts[0]
    return values
