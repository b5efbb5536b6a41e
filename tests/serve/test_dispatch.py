"""Between routes and queue: long texts do not block the event loop, and a slow reader does not fill the memory."""

import asyncio
import time
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from regard.pipelines.translator import Translator
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.dispatch import Dispatcher, JobDone, JobUpdate
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.text.sentences import SplitText


@pytest.mark.parametrize(
    ("path", "name", "fields"),
    [
        ("/v1/translate", "text", {"model": "toy"}),
        ("/v1/completions", "prompt", {"model": "toy"}),
        ("/translate", "q", {"source": "src", "target": "tgt"}),
        ("/translate", "q", {"source": "src", "target": "tgt", "format": "html"}),
    ],
)
def test_long_texts_are_not_split_on_the_event_loop(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, name: str, fields: dict[str, str]
) -> None:
    split, on_loop = Translator.split, list[bool]()

    def noted(self: Translator, text: str, to: str | None = None) -> SplitText:
        on_loop.append(asyncio._get_running_loop() is not None)
        return split(self, text, to)

    monkeypatch.setattr(Translator, "split", noted)
    for text, expected in (("a b", True), ("Abcdefgh abcdefgh.\n" * 60, False)):
        on_loop.clear()
        assert client.post(path, json={name: text, **fields}).status_code == 200
        assert any(on_loop) is expected


@pytest.mark.parametrize("only_latest", [False, True])
def test_a_slow_reader_gets_all_reports_or_the_latest(only_latest: bool) -> None:
    def make_job(report: Callable[[int], None]) -> FunctionJob[str]:
        def run(queued: QueuedJob) -> str:
            for i in range(50):
                report(i)
            time.sleep(0.1)
            return "done"

        return FunctionJob(run, "generate")

    async def read() -> list[object]:
        dispatcher, events = Dispatcher(Registry([]), Limits()), list[object]()
        async for event in dispatcher.stream(make_job, only_latest):
            events.append(event)
            await asyncio.sleep(0.001)
        dispatcher.close()
        return events

    *updates, last = asyncio.run(read())
    assert last == JobDone("done") and updates[-1] == JobUpdate(49)
    assert updates == [JobUpdate(i) for i in range(50)] if not only_latest else len(updates) < 40
