"""`regard backtranslate`: text of the target language becomes training pairs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.option_groups import with_option_groups
from regard.cli.options import DeviceOption, EngineOption, ToOption
from regard.cli.output import ProgressLine, continue_by_same_command, print_line, print_warning
from regard.cli.synthetic_options import SynthesisOptions
from regard.cli.worker_options import WorkerOptions

ReverseArgument = Annotated[
    Path,
    typer.Argument(metavar="REVERSE_DIR", help="A model that translates from the target language to the source."),
]
TextArgument = Annotated[
    Path,
    typer.Argument(metavar="TEXT", help="Text of the target language, one sentence per line; plain, .gz, .xz, .zst."),
]
OutOption = Annotated[
    Path, typer.Option(metavar="FILE", help="The file of pairs to write: .tsv, .tsv.gz, .tsv.xz or .tsv.zst.")
]
TagOption = Annotated[
    str, typer.Option(help="The tag of these pairs in the lines for `regard train --data`; empty: none.")
]


@app.command()
@with_option_groups
def backtranslate(
    reverse: ReverseArgument,
    text: TextArgument,
    out: OutOption,
    tag: TagOption = "<bt>",
    to: ToOption = None,
    options: SynthesisOptions = SynthesisOptions(),
    workers: WorkerOptions = WorkerOptions(),
    engine: EngineOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Make training pairs of target-language text.

    A reverse model translates each line; the pairs are (translation, line). The same command continues a job that was
    stopped: what was translated is kept in a folder beside FILE.
    """
    from regard.data.mixture import CorpusConfig
    from regard.synthetic.backtranslation import BackTranslation, check_languages, check_pair_file, parts_folder
    from regard.synthetic.text_translation import TextTranslation

    check_pair_file(out)
    CorpusConfig.parse({"files": [out], "tag": tag}, "--tag")
    filter_, parts = options.filter(), parts_folder(out)
    search = options.search(to)
    job = TextTranslation((reverse,), text, parts, search, workers.lines(), engine, workers.choose(device))
    if warning := check_languages(reverse, text, to):
        print_warning(warning)
    with continue_by_same_command(), ProgressLine("lines", log=True) as progress:
        result = BackTranslation(job, out, filter_).run(progress)
    for line in result.describe():
        print_line(line)
    print_line(f"all translations: {parts}; delete this folder when you no longer need it")
    print_line("add the pairs to the corpora of `regard train --data`:")
    print_line(f"  - files: {json.dumps(str(out.resolve()), ensure_ascii=False)}")
    if tag:
        print_line(f"    tag: {json.dumps(tag, ensure_ascii=False)}")
