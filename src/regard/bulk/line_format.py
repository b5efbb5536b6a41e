"""How translations are written: one line each, the n best with their scores, or JSON."""

import json
from typing import Any

from regard.alignment.from_attention import format_links
from regard.config import Config
from regard.errors import UserError
from regard.pipelines.translation import Candidate, Translation


class LineFormat(Config):
    """Turns a Translation into the lines to write."""

    scores: bool = False
    """Write all hypotheses, each with its score"""
    alignment: bool = False
    as_json: bool = False

    def __call__(self, translation: Translation) -> str:
        if self.as_json:
            return self._json(translation)
        candidates = translation.hypotheses if self.scores else translation.hypotheses[:1]
        return "\n".join(self._line(candidate) for candidate in candidates)

    def _line(self, candidate: Candidate) -> str:
        line = f"{candidate.score:.4f}\t{candidate.text}" if self.scores else candidate.text
        return f"{line} ||| {format_links(_links(candidate))}" if self.alignment else line

    def _json(self, translation: Translation) -> str:
        hypotheses: list[dict[str, Any]] = [
            {"text": h.text, "score": h.score, "confidence": h.confidence, "tokens": h.tokens}
            | ({"alignment": _links(h)} if self.alignment else {})
            for h in translation.hypotheses
        ]
        row = {
            "source": translation.source,
            "source_tokens": translation.source_tokens,
            "unknown": translation.unknown,
            "hypotheses": hypotheses,
        }
        if translation.unmet_terms:
            row["unmet_terms"] = [str(term) for term in translation.unmet_terms]
        if translation.problem:
            row["problem"] = translation.problem.problem
        return json.dumps(row, ensure_ascii=False)


def _links(candidate: Candidate) -> tuple[tuple[int, int], ...]:
    if candidate.attention is not None and not candidate.attention.cross.size:
        raise UserError("this model has no cross attention, and so no word alignment; leave --alignment out")
    return candidate.alignment or ()
