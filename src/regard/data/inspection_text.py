"""An inspected corpus as text that a person reads on one screen."""

from collections.abc import Sequence

from regard.data.inspection import Finding, Inspection, SideSummary

_WIDTH = 100


def describe_inspection(found: Inspection, command: str) -> str:
    """Return the text; `command` is the one that cleans the corpus."""
    blocks = [
        [
            f"{found.name}: {found.pairs:,} pairs of {found.lines:,} lines",
            f"usual length of a target: {found.ratio:.2f} × that of its source",
        ],
        _table([("", "source", "target"), *_side_rows(found.source, found.target)]),
        _finding_rows(found),
        _examples(found.findings),
        [*_leakage(found), *found.notes],
        [_advice(found, command)],
    ]
    return "\n\n".join("\n".join(rows) for rows in blocks if rows)


def _side_rows(source: SideSummary, target: SideSummary) -> list[tuple[str, str, str]]:
    rows = [("characters", f"{source.characters:,}", f"{target.characters:,}")]
    rows.append(("words", _count(source.words), _count(target.words)))
    rows.append(("different words", _count(source.distinct_words), _count(target.distinct_words)))
    rows.append(("characters per text: median", f"{source.median:,}", f"{target.median:,}"))
    rows.append(("95 % have at most", f"{source.percentile_95:,}", f"{target.percentile_95:,}"))
    rows.append(("longest", f"{source.longest:,}", f"{target.longest:,}"))
    rows.append(("script", _shares(source.scripts), _shares(target.scripts)))
    if source.languages or target.languages:
        rows.append(("language", _shares(source.languages), _shares(target.languages)))
    return rows


def _count(n: int | None) -> str:
    return "no spaces" if n is None else f"{n:,}"


def _shares(shares: dict[str, float]) -> str:
    """Return `en 97 %, de 3 %`, without labels below 1 % unless there is no other."""
    shown = [(name, share) for i, (name, share) in enumerate(shares.items()) if i == 0 or share >= 0.01]
    return ", ".join(f"{name} {_percent(share)}" for name, share in shown) or "unknown"


def _percent(share: float) -> str:
    """Return a share in percent; 100 and 0 only if nothing or everything is missing."""
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    if share > 0.9995:
        return "> 99.9 %"
    return "< 0.01 %" if share < 0.0001 else f"{100 * share:.{1 if share >= 0.01 else 2}f} %"


def _finding_rows(found: Inspection) -> list[str]:
    rows = [("found", "pairs", "share", "at lines")]
    for finding in found.findings:
        more = " …" if finding.pairs > len(finding.lines) else ""
        lines = ", ".join(f"{line:,}" for line in finding.lines) + more
        rows.append((finding.problem, f"{finding.pairs:,}", _percent(finding.share), lines))
    return _table(rows)


def _examples(findings: Sequence[Finding]) -> list[str]:
    rows = []
    for finding in findings:
        if finding.example:
            rows += [f"line {finding.lines[0]:,}: {finding.problem}", *(f"  {_cut(side)}" for side in finding.example)]
    return rows


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH - 2 else f"{text[: _WIDTH - 3]}…"


def _leakage(found: Inspection) -> list[str]:
    return [
        leakage.describe(name) or f"no source of the {name} occurs in the training data"
        for name, leakage in found.leakage.items()
    ]


def _advice(found: Inspection, command: str) -> str:
    if not found.removable:
        return "Nothing to remove."
    share = _percent(found.removable / found.lines)
    least = "at least " if found.is_sample else ""
    return f"`{command}` removes {least}{found.removable:,} of {found.lines:,} lines ({share})."


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with aligned columns, the first and the last to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in (0, 3) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
