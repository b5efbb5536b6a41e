"""Streams what a job reports as server-sent events: `said` with new text, then `done` or `failed`."""

from collections.abc import AsyncIterator, Awaitable, Callable

from regard.serve.batch_queue import Job, JobTimeout, QueueClosed, QueueFull, R
from regard.serve.dispatch import Dispatcher, JobDone, JobFailed, JobUpdate
from regard.serve.errors import as_api_error
from regard.serve.jobs import Report
from regard.serve.schemas.v1_responses import FailedEvent, ProgressEvent


async def stream_events(
    dispatcher: Dispatcher, make_job: Callable[[Report], Job[R]], respond: Callable[[R], Awaitable[str]]
) -> AsyncIterator[str]:
    """Yield events of a job that reports text; `respond` turns its result into JSON."""
    async for event in dispatcher.stream(make_job, only_latest=True):
        match event:
            case JobUpdate(text):
                yield ProgressEvent(text=text).as_event("said")
            case JobDone(result):
                try:
                    yield f"event: done\ndata: {await respond(result)}\n\n"
                except (QueueFull, QueueClosed, JobTimeout) as error:
                    yield _failed(error)
            case JobFailed(error):
                yield _failed(error)


def _failed(error: BaseException) -> str:
    problem = as_api_error(error)
    return FailedEvent(title=problem.title, status=problem.status, detail=problem.detail).as_event("failed")
