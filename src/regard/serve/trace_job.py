"""Jobs for the queue: traces. Those of one model with the same options of search are decoded in one batch."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.pipelines.base import Pipeline
from regard.serve.batch_queue import QueuedJob, QueueName
from regard.serve.inspect import TraceResult, Watcher, run_traces
from regard.serve.jobs import Report
from regard.serve.registry import ServedModel
from regard.serve.schemas.v1_requests import SEARCH_SETTINGS, TraceRequest
from regard.serve.trace_query import SAMPLING_SETTINGS, make_trace_query

FinishedTrace = tuple[TraceResult, str]


@dataclass(frozen=True, eq=False)
class TraceJob:
    queue: ClassVar[QueueName] = "trace"
    served: ServedModel[Pipeline]
    text: str
    """That of the request with its tag"""
    body: TraceRequest
    to_json: Callable[[TraceResult], str]
    """Makes the response; of a long search this takes a while, so the worker does it"""
    report: Report | None = None
    """Called with the best output so far"""

    @property
    def batch_key(self) -> Hashable:
        body = self.body
        is_plain = body.target is None and body.patch is None and not body.ablate
        if not is_plain or self.served.pipeline.noun not in ("translator", "captioner"):
            return id(self)
        return self.served.name, *body.model_dump(include={*SEARCH_SETTINGS, *SAMPLING_SETTINGS}).values()

    @property
    def size(self) -> int:
        return len(self.text)

    def run(self, batch: Sequence[QueuedJob]) -> list[FinishedTrace | None]:
        jobs: list[TraceJob] = [queued.job for queued in batch]
        queries = [make_trace_query(job.served, job.text, job.body) for job in jobs]
        watchers = [Watcher(queued.is_cancelled, queued.job.report) for queued in batch]
        results = run_traces(queries, watchers)
        return [
            None if result is None else (result, job.to_json(result)) for job, result in zip(jobs, results, strict=True)
        ]
