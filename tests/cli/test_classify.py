"""`regard classify` and `regard embed`."""

import json
from pathlib import Path

from tests.cli.command import failed_in_one_line, regard

TRANSLATOR = Path(__file__).parents[1] / "bundles" / "format-1" / "rnn-additive"
GENERATOR = Path(__file__).parents[1] / "bundles" / "format-1" / "generator"
CAPTIONER = Path(__file__).parents[1] / "bundles" / "format-1" / "captioner"
CLASSIFIER = Path(__file__).parents[1] / "bundles" / "format-1" / "classifier"


def test_each_line_gets_a_label_and_a_vector() -> None:
    lines = b"a cat\n\nthe witch\n" * 200
    labels = regard("classify", CLASSIFIER, stdin=lines)
    assert labels.returncode == 0 and len(labels.stdout.splitlines()) == 600
    vectors = regard("embed", CLASSIFIER, stdin=lines)
    assert vectors.returncode == 0 and len(vectors.stdout.splitlines()) == 600
    rows = [json.loads(row) for row in regard("classify", CLASSIFIER, "--json", stdin=lines).stdout.splitlines()]
    assert [row["label"] for row in rows] == labels.stdout.splitlines()


def test_translators_and_generators_embed_too_but_captioners_do_not() -> None:
    for model in (TRANSLATOR, GENERATOR):
        vectors = regard("embed", model, stdin=b"a cat\nthe witch\n")
        assert vectors.returncode == 0 and len(vectors.stdout.splitlines()) == 2
    refused = regard("embed", CAPTIONER, stdin=b"a cat\n")
    assert "this is a captioner; embed takes a model that reads text" in failed_in_one_line(refused)


def test_of_long_lines_the_beginning_is_read_with_a_warning() -> None:
    lines = b"cat\n" + b"cat " * 2000 + b"\n" + b"cat " * 250_000 + b"\n"
    for verb in ("classify", "embed"):
        done = regard(verb, CLASSIFIER, stdin=lines, timeout=60)
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
        assert done.stderr == "regard: 2 texts are longer than 1,024 tokens; only their beginning was read\n"
