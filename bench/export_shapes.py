"""Every shape of model in every export format: whether the exported model gives the same output, or is refused.

    python -m bench.export_shapes [FORMAT …] > table.md

Run in the root of the repository. ONNX takes 10 to 20 seconds per shape, the other formats less than a second.
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.convert.shapes import SHAPES, bundle_of

from regard.convert.export import export_format, format_names
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions


def result(shape: str, name: str) -> str:
    """Return the largest difference of a log-probability, or that the model is refused."""
    bundle, chosen = bundle_of(shape), export_format(name)
    if chosen.problem(bundle, ExportOptions()):
        return "refused"
    with tempfile.TemporaryDirectory() as folder:
        chosen.write(bundle, Path(folder), ExportOptions())
        checked = compare(bundle, chosen.open(Path(folder), bundle), sample_inputs(bundle)[:8], max_len=20)
    equal = "equal" if not checked.differences else f"{len(checked.differences)} of 8 different"
    return f"{equal}, {checked.max_log_prob_difference:.0e}"


def main(names: list[str]) -> None:
    print("| model |", " | ".join(names), "|")
    print("|---|" + "---|" * len(names))
    for shape in SHAPES:
        start = time.perf_counter()
        print("|", " | ".join([shape, *(result(shape, name) for name in names)]), "|", flush=True)
        print(f"{shape}: {time.perf_counter() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:] or format_names())
