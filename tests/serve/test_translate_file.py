"""/translate_file and /download_file: documents through the queue, bounded, and errors in LibreTranslate's format."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
import pytest
from starlette.testclient import TestClient

from regard.documents.kinds import EXTENSIONS
from regard.serve.batch_queue import JobTimeout, QueueFull
from regard.serve.file_store import FileStore, translated_name
from regard.serve.limits import Limits
from regard.serve.request_body import UploadPlaces
from regard.serve.request_head import RequestHead
from tests.documents.samples import SUBTITLES, book, open_text, word_document
from tests.serve.conftest import make_client

LANGUAGES = {"source": "src", "target": "tgt"}


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[TestClient]:
    with make_client({"toy": models["toy"]}) as client:
        yield client


def send(client: TestClient, name: str, content: bytes, **fields: str) -> Any:
    return client.post("/translate_file", data={**LANGUAGES, **fields}, files={"file": (name, content)})


def download(client: TestClient, response: Any) -> Any:
    assert response.status_code == 200, response.text
    return client.get(response.json()["translatedFileUrl"].removeprefix("http://testserver"))


def test_a_file_is_translated_and_downloaded(client: TestClient) -> None:
    text = "a b c d\n\n  e f {x}\n42\n"
    answer = download(client, send(client, "my letter.txt", text.encode(), api_key="any", other="ignored"))
    lines = answer.text.splitlines()
    [expected] = [client.post("/translate", json={"q": "a b c d", **LANGUAGES}).json()["translatedText"]]
    assert lines[0] == expected and lines[1] == "" and lines[2].startswith("  ") and "{x}" in lines[2]
    assert lines[3:] == ["42"] and answer.text.endswith("\n")
    assert answer.headers["content-disposition"] == 'attachment; filename="my_letter_tgt.txt"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", word_document()),
        ("a.odt", open_text()),
        ("a.epub", book()),
        ("a.srt", SUBTITLES.encode()),
        ("a.html", b"<p>a <b>b</b> c"),
    ],
)
def test_every_kind_of_document(client: TestClient, name: str, content: bytes) -> None:
    translated = download(client, send(client, name, content)).content
    assert translated[:2] == content[:2] and translated != content
    if name == "a.docx":
        assert len(docx.Document(io.BytesIO(translated)).paragraphs) == 8


def test_a_large_file_needs_no_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    content = (b"42" * 30 + b"\n") * 30_000
    assert download(client, send(client, "a.txt", content)).content == content


def test_settings_name_the_formats(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True and settings["supportedFilesFormat"] == list(EXTENSIONS)


@pytest.mark.parametrize(
    ("fields", "name", "content", "error"),
    [
        ({"source": ""}, "a.txt", b"a", "Invalid request: missing source parameter"),
        ({"target": ""}, "a.txt", b"a", "Invalid request: missing target parameter"),
        ({"target": "zz"}, "a.txt", b"a", "zz is not supported"),
        ({"source": "zz"}, "a.txt", b"a", "zz is not supported"),
        ({}, "program.exe", b"MZ", "Invalid request: file format not supported"),
        ({}, "a.docx", b"PK", "Invalid request: the file is a damaged archive"),
        ({}, "a.txt", b"\xff", "Invalid request: the file is not valid UTF-8"),
        ({}, "a.txt", b"a " * 600, "more than the limit"),
    ],
)
def test_mistakes(client: TestClient, fields: dict[str, str], name: str, content: bytes, error: str) -> None:
    response = send(client, name, content, **fields)
    assert response.status_code == 400 and error in response.json()["error"]


def test_a_broken_form_is_told_to_the_client_only(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"content-type": "multipart/form-data; boundary=y"}
    response = client.post("/translate_file", content=b"--y\r\nname[\r\n", headers=headers)
    assert response.status_code == 400 and not [r for r in caplog.records if r.name.startswith("python_multipart")]


def test_a_request_without_a_file(client: TestClient) -> None:
    for body in ({"data": LANGUAGES}, {"json": LANGUAGES}, {"data": {**LANGUAGES, "file": "text"}}, {"content": b"x"}):
        response = client.post("/translate_file", **body)  # type: ignore[arg-type]
        assert response.status_code == 400 and response.json() == {"error": "Invalid request: missing file parameter"}
    broken = client.post(
        "/translate_file", content=b"--x\r\n", headers={"content-type": "multipart/form-data; boundary=y"}
    )
    assert broken.status_code == 400
    two = [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]
    assert client.post("/translate_file", data=LANGUAGES, files=two).status_code == 400


def test_unknown_files(client: TestClient) -> None:
    for name in ("x.txt", "..%2f..%2fetc%2fpasswd", "%00", "a" * 500):
        assert client.get(f"/download_file/{name}").status_code == 404


def test_limits_of_documents(models: dict[str, Path]) -> None:
    limits = Limits(file=50_000, file_unpacked=60_000, file_chars=30, body=1_000)
    with make_client({"toy": models["toy"]}, limits) as client:
        assert send(client, "a.txt", b"a b c").status_code == 200
        assert send(client, "a.txt", b"a b c\n" * 1000).status_code == 200  # equal lines are translated once
        assert send(client, "a.txt", b"a" * 51_500).status_code == 413
        assert "more than 50,000 bytes" in send(client, "a.txt", b"a" * 50_100).json()["error"]
        assert "33 characters, more than the limit of 30" in send(client, "a.txt", b"abc " * 8 + b"d").json()["error"]
        assert "when it is unpacked" in send(client, "a.docx", word_document()).json()["error"]
        assert client.post("/translate", content=b"q=" + b"a" * 2000).status_code == 413


def test_a_document_may_have_more_sentences_than_a_request(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(sentences=3)) as client:
        assert client.post("/translate", json={"q": "a\nb\nc\nd", **LANGUAGES}).status_code == 400
        assert len(download(client, send(client, "a.txt", b"a\nb\nc\nd")).text.splitlines()) == 4


def test_a_document_that_takes_too_long_is_not_tried_again(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    async def slow(request: object, jobs: list[Any]) -> object:
        tries.append(jobs)
        raise JobTimeout

    monkeypatch.setattr(client.app.state.dispatcher, "run", slow)  # type: ignore[attr-defined]
    assert send(client, "a.txt", b"a b\n").status_code == 504 and len(tries) == 1


def test_documents_wait_for_room_in_the_queue(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = client.app.state.dispatcher  # type: ignore[attr-defined]
    run, failures = dispatcher.run, [QueueFull(), QueueFull()]

    async def busy(request: object, jobs: list[Any]) -> object:
        if failures:
            raise failures.pop()
        return await run(request, jobs)

    monkeypatch.setattr(dispatcher, "run", busy)
    monkeypatch.setattr("regard.serve.routes.translate_file._RETRY_SECONDS", 0.01)
    assert send(client, "a.txt", b"a b\n").status_code == 200 and failures == []


def test_a_long_document_is_translated_in_portions(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = client.app.state.dispatcher  # type: ignore[attr-defined]
    run, sizes = dispatcher.run, list[int]()

    async def counted(request: object, jobs: list[Any]) -> object:
        sizes.append(sum(job.size for job in jobs))
        return await run(request, jobs)

    monkeypatch.setattr(dispatcher, "run", counted)
    monkeypatch.setattr("regard.serve.routes.translate_file._PORTION_CHARS", 10)
    lines = [f"{a} {b} c" for a in "abcd" for b in "efg"]
    assert send(client, "a.txt", "\n".join(lines * 2).encode()).status_code == 200
    assert sizes == [10] * 6


def test_few_uploads_at_a_time() -> None:
    """Strangers, whose token may be in the body, cannot take all places."""
    places = UploadPlaces(Limits(file_requests=2))
    upload = RequestHead("POST", "/translate_file", {"content-type": "multipart/form-data; boundary=x"}, "", "", False)
    other = RequestHead("POST", "/translate", {}, "", "", False)
    with places.take(upload, is_known=False):
        with pytest.raises(QueueFull), places.take(upload, is_known=False):
            pass
        with places.take(upload, True), places.take(other, False), pytest.raises(QueueFull), places.take(upload, True):
            pass
    assert places.n_free == 2


def test_files_are_stored_under_unguessable_names_and_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.bounded_store.time.monotonic", lambda: now)
    store = FileStore(Limits(stored_files=2, stored_file_seconds=5.0))
    names = [store.add("a.txt", b"x", "client") for _ in range(3)]
    assert len(set(names)) == 3 and all(len(name) == 24 + len(".a.txt") for name in names)
    assert [store.get(name) is not None for name in names] == [False, True, True]
    now = 6.0
    assert store.get(names[2]) is None and len(store) == 0


def test_names_of_translations() -> None:
    assert translated_name("letter.docx", "fr") == "letter_fr.docx"
    assert translated_name('../../"x"\r\ny.TXT', "fr") == "x_y_fr.txt"
    assert translated_name("手紙.odt", "fr") == "fr.odt"
    assert len(translated_name("a" * 500 + ".epub", "fr")) < 100
