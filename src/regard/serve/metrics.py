"""Metrics in the text format of Prometheus. docs/serve.md lists their names."""

from collections.abc import Callable, Iterator, Mapping

from regard.serve.activity import Activity
from regard.serve.batch_queue import JobQueue, QueueName
from regard.serve.histogram import Histogram

MEDIA_TYPE = "text/plain; version=0.0.4"
RATIO = "regard_queue_ratio"
"""The metric for autoscaling"""
Samples = Mapping[str, float]
"""Labels, such as {queue="translate"}, and the value"""


def write_metrics(queues: Mapping[QueueName, JobQueue], activity: Activity, stored: Mapping[str, int]) -> str:
    """Return all metrics. `stored`: the number of entries of each store."""

    def per_queue(read: Callable[[JobQueue], float]) -> Samples:
        return {_label("queue", name): read(queue) for name, queue in queues.items()}

    ratio = max(queue.depth / queue.limits.queue for queue in queues.values())
    families = [
        _family("queue_depth", "gauge", "Places of jobs that wait or run", per_queue(lambda q: q.depth)),
        _family("queue_waiting", "gauge", "Places of jobs that wait", per_queue(lambda q: q.waiting_places)),
        _family("queue_running", "gauge", "Places of jobs that run", per_queue(lambda q: q.running_places)),
        _family("queue_capacity", "gauge", "Places of a queue", per_queue(lambda q: q.limits.queue)),
        _family(RATIO.removeprefix("regard_"), "gauge", "Depth by capacity of the fullest queue", {"": ratio}),
        _waits({name: queue.waits for name, queue in queues.items()}),
        _family("texts_total", "counter", "Jobs that were done", per_queue(lambda q: q.done)),
        _family("batches_total", "counter", "Batches that were run", per_queue(lambda q: q.batches)),
        _family("refused_total", "counter", "Jobs that a full queue refused", per_queue(lambda q: q.refused)),
        _family("given_up_total", "counter", "Jobs that were not finished", per_queue(lambda q: q.given_up)),
        _family("requests_running", "gauge", "Requests that are being answered", {"": activity.running}),
        _family(
            "responses_total",
            "counter",
            "Responses by status",
            {_label("status", str(status)): n for status, n in sorted(activity.responses.items())},
        ),
        _family("draining", "gauge", "1 if the server is about to stop", {"": int(activity.draining)}),
        *(_family(name, "gauge", f"Stored {name}", {"": n}) for name, n in stored.items()),
    ]
    return "".join(families)


def _waits(waits: Mapping[str, Histogram]) -> str:
    samples = {key: value for queue, histogram in waits.items() for key, value in _histogram(queue, histogram)}
    return _family("queue_wait_seconds", "histogram", "How long jobs waited before they ran", samples)


def _histogram(queue: str, histogram: Histogram) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, total in histogram.cumulative():
        yield f'_bucket{{queue="{queue}",le="{bound}"}}', total
    yield f"_sum{_label('queue', queue)}", round(histogram.sum, 6)
    yield f"_count{_label('queue', queue)}", total


def _label(name: str, value: str) -> str:
    return f'{{{name}="{value}"}}'


def _family(name: str, kind: str, description: str, samples: Samples) -> str:
    """Write a metric; the keys of `samples` follow its name."""
    name = f"regard_{name}"
    lines = [f"{name}{key} {value}\n" for key, value in samples.items()]
    return f"# HELP {name} {description}\n# TYPE {name} {kind}\n" + "".join(lines)
