"""`regard data`: built-in datasets as files."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.output import print_line
from regard.errors import UserError


@app.command()
def data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="grammar, copy, reverse, sort, shapes or stories.")],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder to write: new, empty, or written by this command before.")
    ],
    size: Annotated[
        int | None, typer.Option(help="Number of training examples; validation and test sets have at most a tenth.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 1,
    direction: Annotated[str, typer.Option(help="grammar only: en-fr or fr-en.")] = "en-fr",
    min_len: Annotated[int, typer.Option(help="Toy tasks only: minimum letters per line.")] = 3,
    max_len: Annotated[int, typer.Option(help="Toy tasks only: maximum letters per line.")] = 20,
    test_min_len: Annotated[
        int | None, typer.Option(help="Toy tasks only: minimum letters per test line.  [default: --min-len]")
    ] = None,
    test_max_len: Annotated[
        int | None, typer.Option(help="Toy tasks only: maximum letters per test line.  [default: --max-len]")
    ] = None,
) -> None:
    """Write a built-in dataset as files.

    grammar: English–French sentence pairs with word alignments. copy, reverse, sort: toy tasks on letters. shapes:
    images with captions. stories: short texts with summaries.
    """
    from regard.data.builtin.datasets import IMAGE_FOLDER, DatasetOptions, write_dataset
    from regard.data.builtin.toy_tasks import TASKS

    toy_only = {"min-len": min_len != 3, "max-len": max_len != 20}
    toy_only |= {"test-min-len": test_min_len is not None, "test-max-len": test_max_len is not None}
    if name not in TASKS and any(toy_only.values()):
        option = next(option for option, is_set in toy_only.items() if is_set)
        raise UserError(f"--{option} is only for {', '.join(TASKS)}; leave it out for {name}")
    low = min_len if test_min_len is None else test_min_len
    high = max_len if test_max_len is None else test_max_len
    options = DatasetOptions(size, seed, direction, (min_len, max_len), (low, high))
    for path in write_dataset(name, out, options):
        print_line(f"{path}/" if path.name == IMAGE_FOLDER else str(path))
