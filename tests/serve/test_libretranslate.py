"""LibreTranslate's API as its documentation describes it: requests, responses, statuses and messages of errors."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

import regard
from regard.bundle import Bundle
from regard.serve import language_detector
from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.serve.suggestion_file import SuggestionFile
from tests.serve.conftest import LOCAL, make_client
from tests.serve.live import serving

ENGLISH = "This is a sentence written in English for testing purposes."
GERMAN = "Das ist ein deutscher Satz, der nur zum Testen da ist."
PAIR = {"source": "en", "target": "fr"}
NO_NUMBER = "Invalid request: alternatives parameter is not a number"
SMALL = Limits(chars=12, q_texts=2, beam=3)


@pytest.fixture(scope="module")
def folders(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Translators from English to French (two), from German to French and from French to Spanish"""
    toy, folder = Bundle.load(models["toy"]), tmp_path_factory.mktemp("languages")
    languages = {"en-fr": ("en", "fr"), "other": ("en", "fr"), "de-fr": ("de", "fr"), "fr-es": ("fr", "es")}
    for name, pair in languages.items():
        replace(toy, languages=pair).save(folder / name, "toy")
    return {name: folder / name for name in languages}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path]) -> Iterator[TestClient]:
    with make_client(folders) as client:
        yield client


@pytest.fixture(scope="module")
def small_client(folders: dict[str, Path]) -> Iterator[TestClient]:
    with make_client({"en-fr": folders["en-fr"]}, SMALL) as client:
        yield client


def translate(client: TestClient, **body: object) -> Any:
    response = client.post("/translate", json={**PAIR, **body})
    assert response.status_code == 200, response.text
    return response.json()


def test_languages(client: TestClient) -> None:
    names = {"en": "English", "fr": "French", "de": "German", "es": "Spanish"}
    targets = {"en": ["fr"], "fr": ["es"], "de": ["fr"], "es": []}
    listed = client.get("/languages").json()
    assert listed == [{"code": code, "name": names[code], "targets": targets[code]} for code in names]


def test_one_text_in_every_form_of_request(client: TestClient, folders: dict[str, Path]) -> None:
    [expected] = regard.load(folders["en-fr"]).translate(["a b c"])  # type: ignore[union-attr]
    body = {"q": "a b c", **PAIR}
    requests: list[dict[str, Any]] = [
        {"json": body},
        {"json": {**body, "format": "", "alternatives": None, "api_key": "any", "secret": "x", "unknown": 1}},
        {"data": body},
        {"params": body},
        {"data": body, "files": {"unknown": b"x"}},
        {"params": {"q": "a b c"}, "data": {**PAIR, "q": "replaced by the query"}},
        {"content": json.dumps(body), "headers": {"content-type": "application/vnd.x+json"}},
    ]
    for options in requests:
        response = client.post("/translate", **options)
        assert (response.status_code, response.json()) == (200, {"translatedText": expected.text}), options


def test_lists(client: TestClient) -> None:
    one, two = (translate(client, q=text)["translatedText"] for text in ("a b", "c"))
    assert translate(client, q=["a b", "c"]) == {"translatedText": [one, two]}
    assert translate(client, q=["a b"]) == {"translatedText": [one]}
    assert translate(client, q=["", "c", " "]) == {"translatedText": ["", two, " "]}
    repeated = client.post("/translate", data={"q": ["a b", "c"], **PAIR})
    assert repeated.json() == {"translatedText": [one, two]}


def test_line_breaks_of_forms_are_those_of_json(client: TestClient) -> None:
    expected = translate(client, q="a b\n\nc\n")
    assert client.post("/translate", data={"q": "a b\r\n\r\nc\r\n", **PAIR}).json() == expected


def test_alternatives(client: TestClient) -> None:
    one = translate(client, q="a b c", alternatives=3)
    assert 1 <= len(one["alternatives"]) <= 3
    assert len({one["translatedText"], *one["alternatives"]}) == 1 + len(one["alternatives"]), "each only once"
    assert translate(client, q="a b c", alternatives="3") == one
    assert client.post("/translate", data={"q": "a b c", "alternatives": "3", **PAIR}).json() == one
    several = translate(client, q=["a b c", "d. e."], alternatives=3)
    assert several["alternatives"][0] == one["alternatives"] and len(several["alternatives"]) == 2
    assert "alternatives" not in translate(client, q="a", alternatives=0)
    assert "alternatives" not in translate(client, q="a", alternatives=-1)
    assert translate(client, q="<b>a</b>", format="html", alternatives=2)["alternatives"] == []
    assert translate(client, q=["<b>a</b>"], format="html", alternatives=2)["alternatives"] == [[]]


def test_the_source_language_is_detected(client: TestClient) -> None:
    one = translate(client, q=ENGLISH, source="auto")
    assert one["detectedLanguage"]["language"] == "en" and 50 < one["detectedLanguage"]["confidence"] <= 100
    assert one["translatedText"] == translate(client, q=ENGLISH)["translatedText"]
    several = translate(client, q=[GERMAN, "Noch ein Satz."], source="auto")["detectedLanguage"]
    assert [each["language"] for each in several] == ["de", "de"] and several[0] == several[1]
    html = translate(
        client, q=f"<p class='this is the name of an English class'>{GERMAN}", source="auto", format="html"
    )
    assert html["detectedLanguage"]["language"] == "de"
    only = translate(client, q=GERMAN, source="auto", target="es")["detectedLanguage"]
    assert only["language"] == "fr" and only["confidence"] < 10, "the only language that has this target"
    assert translate(client, q="123 😀", source="auto")["detectedLanguage"]["confidence"] == 0.0
    assert "detectedLanguage" not in translate(client, q=ENGLISH)


def test_detect(client: TestClient) -> None:
    for options in ({"json": {"q": GERMAN}}, {"data": {"q": GERMAN}}, {"params": {"q": GERMAN}}):
        best, *others = client.post("/detect", **options).json()  # type: ignore[arg-type]
        assert best["language"] == "de" and 50 < best["confidence"] <= 100
        assert {other["language"] for other in others} <= {"en", "fr"}
    assert client.post("/detect", json={"q": [ENGLISH, ENGLISH]}).json()[0]["language"] == "en"
    assert client.post("/detect", json={"q": "12"}).json() == [{"confidence": 0.0, "language": "en"}]
    russian = client.post("/detect", json={"q": "Это предложение написано на другом языке."}).json()
    assert russian[0]["confidence"] < 1, "no served language is probable"


def test_without_py3langid(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_detector, "can_identify", lambda: False)
    for path, body in (("/detect", {"q": "a"}), ("/translate", {"q": "a", "source": "auto", "target": "fr"})):
        response = client.post(path, json=body)
        assert response.status_code == 501 and "pip install 'regard[serve]'" in response.json()["error"]
    assert translate(client, q="a")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/translate", {}, "Invalid request: missing q parameter"),
        ("/translate", {"q": "", **PAIR}, "Invalid request: missing q parameter"),
        ("/translate", {"q": [], **PAIR}, "Invalid request: missing q parameter"),
        ("/translate", {"q": "a", "target": "fr"}, "Invalid request: missing source parameter"),
        ("/translate", {"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        ("/translate", {"q": "a", "source": None, "target": "fr"}, "Invalid request: missing source parameter"),
        ("/translate", {"q": 5, **PAIR}, "Invalid request: q must be text, or a list of texts"),
        ("/translate", {"q": ["a", 5], **PAIR}, "Invalid request: q must be text, or a list of texts"),
        ("/translate", {"q": "a", "source": "zz", "target": "fr"}, "zz is not supported"),
        ("/translate", {"q": "a", "source": "en", "target": "zz"}, "zz is not supported"),
        ("/translate", {"q": "a", "source": "auto", "target": "auto"}, "auto is not supported"),
        ("/translate", {"q": "a", "source": "en", "target": "pt-BR"}, "pt-BR is not supported"),
        ("/translate", {"q": "a", "source": "<b>", "target": "fr"}, "the language is not supported"),
        (
            "/translate",
            {"q": "a", "source": "fr", "target": "en"},
            "English (en) is not available as a target language from French (fr)",
        ),
        (
            "/translate",
            {"q": "a", "source": "auto", "target": "de"},
            "German (de) is not available as a target language",
        ),
        ("/translate", {"q": "a", "format": "xml", **PAIR}, "xml format is not supported"),
        ("/translate", {"q": "a", "format": "<x>", **PAIR}, "this format is not supported"),
        ("/translate", {"q": "a", "alternatives": "x", **PAIR}, NO_NUMBER),
        ("/translate", {"q": "a", "alternatives": [1], **PAIR}, NO_NUMBER),
        ("/translate", {"q": "a", "alternatives": 16, **PAIR}, "Invalid request: alternatives parameter must be <= 15"),
        ("/translate", ["a"], "Invalid JSON format"),
        ("/detect", {}, "Invalid request: missing q parameter"),
        ("/suggest", {"q": "a"}, "Suggestions are disabled on this server."),
    ],
)
def test_errors(client: TestClient, path: str, body: Any, message: str) -> None:
    response = client.post(path, json=body)
    assert response.json() == {"error": message}
    assert response.status_code == (403 if path == "/suggest" else 400)
    if isinstance(body, dict) and all(isinstance(value, str) for value in body.values()):
        assert client.post(path, data=body).json() == {"error": message}


@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data", "multipart/form-data; boundary=x"])
def test_bodies_that_cannot_be_read(client: TestClient, content_type: str) -> None:
    response = client.post("/translate", content=b"\xff{", headers={"content-type": content_type})
    assert response.status_code == 400 and set(response.json()) == {"error"}


def test_limits(small_client: TestClient) -> None:
    def error(**body: object) -> str:
        response = small_client.post("/translate", json={**PAIR, **body})
        assert response.status_code == 400
        return str(response.json()["error"])

    assert error(q="a" * 13) == "Invalid request: request (13) exceeds text limit (12)"
    assert error(q=["a" * 7] * 2) == "Invalid request: request (14) exceeds text limit (12)"
    assert error(q=["a"] * 3) == "Invalid request: request (3) exceeds text limit (2)"
    assert error(q="a", alternatives=3) == "Invalid request: alternatives parameter must be <= 2"
    assert small_client.post("/detect", json={"q": "a" * 13}).status_code == 400
    assert translate(small_client, q=["a b c", "d"], alternatives=2)
    settings = small_client.get("/frontend/settings").json()
    assert (settings["charLimit"], settings["textLimit"], settings["alternativesLimit"]) == (12, 2, 2)


def test_settings_document_and_health(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "fr", "name": "French"},
    }
    flags = [settings[name] for name in ("apiKeys", "keyRequired", "suggestions")]
    assert flags == [False, False, False] and isinstance(settings["frontendTimeout"], int)
    assert client.get("/spec").json() == client.get("/openapi.json").json()
    assert client.get("/health").json() == {"status": "ok"}
    wrong = (("POST", "/spec"), ("POST", "/health"), ("POST", "/languages"), ("GET", "/translate"), ("GET", "/detect"))
    assert [client.request(method, path).status_code for method, path in wrong] == [405] * 5


def test_suggestions_are_stored(folders: dict[str, Path], tmp_path: Path) -> None:
    registry = Registry.open([folders["en-fr"]], "cpu")
    file = SuggestionFile(tmp_path / "suggestions.jsonl", max_bytes=400)
    suggestion = {"q": "a\nb", "s": "é", **PAIR}
    with TestClient(make_app(registry, LOCAL, suggestions=file)) as client:
        assert client.get("/frontend/settings").json()["suggestions"] is True
        for options in ({"json": suggestion}, {"data": {**suggestion, "api_key": "k"}}):
            assert client.post("/suggest", **options).json() == {"success": True}  # type: ignore[arg-type]
        for name in suggestion:
            rest = {other: text for other, text in suggestion.items() if other != name}
            response = client.post("/suggest", json=rest)
            assert (response.status_code, response.json()) == (
                400,
                {"error": f"Invalid request: missing {name} parameter"},
            )
        large = client.post("/suggest", json={**suggestion, "s": "x" * 400})
        assert large.status_code == 403 and "no more suggestions" in large.json()["error"]
        assert [json.loads(line) for line in file.path.read_text().splitlines()] == [suggestion] * 2
        file.path.unlink()
        file.path.mkdir()  # as if the disk could not be written any more
        failed = client.post("/suggest", json=suggestion)
        assert failed.status_code == 503 and "cannot be stored" in failed.json()["error"]


def test_the_client_with_a_key(folders: dict[str, Path]) -> None:
    with serving(folders, token="let-me-in") as (address, _):
        client = LibreTranslateAPI(address, "let-me-in")
        assert isinstance(client.translate("a b c", "en", "fr"), str)
        assert client.detect(GERMAN)[0]["language"] == "de"
        assert client.languages()[0]["code"] == "en"
        for wrong in (None, "wrong"):
            with pytest.raises(HTTPError, match="403"):
                LibreTranslateAPI(address, wrong).translate("a", "en", "fr")


def test_a_server_without_translators() -> None:
    with TestClient(make_app(Registry([]), Access(frozenset({"testserver"})))) as client:
        assert client.get("/languages").json() == []
        assert client.get("/frontend/settings").status_code == 200
        assert client.post("/detect", json={"q": "a"}).status_code == 400
        assert client.post("/translate", json={"q": "a", "source": "auto", "target": "fr"}).status_code == 400
