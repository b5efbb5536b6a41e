"""Nothing of a long text is lost, whichever route it takes."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.pipelines.translation import Candidate, Translation
from regard.pipelines.translator import Translator
from tests.serve.conftest import make_client

LINES = [
    'The first sentence is here. "Is the second one a question?" she asked.',
    "",
    "A third! And a fourth… The fifth has 3.5 numbers, e.g. this one.  Two spaces were before the sixth.",
    "  An indented seventh (with brackets). The eighth; with a semicolon.",
    "1. A list",
    "2. of two items. And the tenth: a colon.",
    "- a dash\twith a tab",
    "- another dash. The thirteenth? The fourteenth!",
    "«The fifteenth.» 'The sixteenth.' “The seventeenth.”",
    "",
    "",
    "THE EIGHTEENTH. the nineteenth. The twentieth",
    "",
]
TEXT = "\n".join(LINES)
HTML = """<!DOCTYPE html><h1>The title</h1>
<p>The <b>first</b> sentence. "Is the <i>second</i> one a question?" she asked.<br>A third! And a fourth &amp; more.</p>
<ul><li>five</li><li>six. seven!<ul><li><a href="x?a=1&amp;b=2">eight</a> and nine</li></ul></li></ul>
text between<blockquote>ten. eleven? twelve!</blockquote>text after
<table><tr><td>13</td><td>fourteen</td><td>&nbsp;</td></tr></table><pre>kept  as it is</pre>
<p>fifteen. <code>kept</code> sixteen. <span translate="no">kept</span> seventeen. <!-- kept --> eighteen.
nineteen.</p><script>kept("<p>");</script>
<p>twenty"""
PAIR = {"source": "src", "target": "tgt"}
Ask = Callable[[TestClient, str], str]


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[TestClient]:
    """A client of a server that "translates" sentences by writing them in capitals"""

    def translate(self: Translator, texts: Sequence[str], n_best: int = 1, **options: object) -> list[Translation]:
        return [Translation(text, (), (Candidate(text.upper(), 0.0, ()),) * n_best) for text in texts]

    with pytest.MonkeyPatch.context() as patch, make_client({"toy": models["toy"]}) as client:
        patch.setattr(Translator, "translate", translate)
        yield client


def post(client: TestClient, path: str, **options: Any) -> Any:
    response = client.post(path, **options)
    assert response.status_code == 200, response.text
    return response.json()


def chunks(client: TestClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream"""
    lines = client.post(path, json={**body, "stream": True}).text.splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


def chat_body(text: str) -> dict[str, Any]:
    return {"model": "toy", "messages": [{"role": "user", "content": text}]}


ROUTES: dict[str, Ask] = {
    "json": lambda client, text: post(client, "/translate", json={"q": text, **PAIR})["translatedText"],
    "form": lambda client, text: post(client, "/translate", data={"q": text, **PAIR})["translatedText"],
    "multipart": lambda client, text: post(client, "/translate", data={"q": text, **PAIR}, files={"x": b""})[
        "translatedText"
    ],
    "query": lambda client, text: post(client, "/translate", params={"q": text, **PAIR})["translatedText"],
    "list": lambda client, text: post(client, "/translate", json={"q": ["a. b.", text], **PAIR})["translatedText"][1],
    "alternatives": lambda client, text: post(client, "/translate", json={"q": text, "alternatives": 2, **PAIR})[
        "translatedText"
    ],
    "v1": lambda client, text: post(client, "/v1/translate", json={"text": text})["text"],
    "v1 n_best": lambda client, text: post(client, "/v1/translate", json={"text": text, "n_best": 2})["text"],
    "v1 stream": lambda client, text: chunks(client, "/v1/translate", {"text": text})[-1]["text"],
    "completions": lambda client, text: post(client, "/v1/completions", json={"model": "toy", "prompt": text})[
        "choices"
    ][0]["text"],
    "completions stream": lambda client, text: "".join(
        chunk["choices"][0]["text"] for chunk in chunks(client, "/v1/completions", {"model": "toy", "prompt": text})
    ),
    "chat": lambda client, text: post(client, "/v1/chat/completions", json=chat_body(text))["choices"][0]["message"][
        "content"
    ],
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_text_comes_back_whole(client: TestClient, route: str) -> None:
    assert ROUTES[route](client, TEXT) == TEXT.upper()
    article = TEXT * (19_000 // len(TEXT))
    if route != "query":  # an address cannot be that long
        assert ROUTES[route](client, article) == article.upper()


def expected_html() -> str:
    """HTML in capitals, without what must not change"""
    kept = ["<!DOCTYPE html>", "<pre>kept  as it is</pre>", "<code>kept</code>", '<span translate="no">kept</span>']
    kept += ["<!-- kept -->", '<script>kept("<p>");</script>', '<a href="x?a=1&amp;b=2">', "&nbsp;", "&amp;"]
    kept += [f"<{slash}{name}>" for name in ("h1", "p", "b", "i", "br", "ul", "li", "a") for slash in ("", "/")]
    kept += [f"<{slash}{name}>" for name in ("blockquote", "table", "tr", "td") for slash in ("", "/")]
    result = HTML.upper()
    for part in kept:
        result = result.replace(part.upper(), part)
    return result.replace("EIGHTEEN.\nNINETEEN", "EIGHTEEN. NINETEEN")


def test_html_comes_back_whole(client: TestClient) -> None:
    body = {**PAIR, "format": "html"}
    assert post(client, "/translate", json={"q": HTML, **body})["translatedText"] == expected_html()
    assert post(client, "/translate", data={"q": HTML, **body})["translatedText"] == expected_html()
    several = post(client, "/translate", json={"q": ["<p>a", HTML, "", "<br>"], **body})["translatedText"]
    assert several == ["<p>A", expected_html(), "", "<br>"]


def test_a_text_that_is_too_long_is_refused_with_its_size_and_the_limit(client: TestClient) -> None:
    text = "a b. " * 5_000
    for path, body, status in (
        ("/translate", {"q": text, **PAIR}, 400),
        ("/translate", {"q": ["a b. " * 2_500] * 2, **PAIR}, 400),
        ("/v1/translate", {"text": text}, 422),
        ("/v1/completions", {"model": "toy", "prompt": text}, 400),
    ):
        response = client.post(path, json=body)
        assert response.status_code == status
        assert "20000" in (shown := response.text.replace(",", "")) and "25000" in shown, response.text
    many = client.post("/translate", json={"q": "a\n" * 3_000, **PAIR})
    assert many.json()["error"] == "the text has 3,000 sentences, more than the limit of 2,000"
    sentence = client.post("/translate", json={"q": "a " * 600, **PAIR})
    assert sentence.json()["error"] == "a sentence has 600 tokens, more than the limit of 512"
