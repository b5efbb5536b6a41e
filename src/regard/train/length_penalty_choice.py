"""The length penalty of a new translator, chosen on its validation data."""

from collections.abc import Sequence

import torch

from regard.evaluate.metrics import score_texts
from regard.evaluate.validation import Validator
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.translation import Candidate
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.length_penalty import normalise_score
from regard.train.log import RunLog
from regard.train.tasks.translation import TranslationValidator

_CHOICES = (0.6, 0.8, 1.0, 1.2, 1.4)
_MIN_SENTENCES = 100  # with fewer, the best value would be chance


def choose_length_penalty(validator: Validator, model: Model, device: torch.device, log: RunLog) -> DecodeConfig:
    """Return the decoding options with the length penalty that gives the best BLEU on the validation sentences.

    The sentences are translated once, with the largest penalty; each penalty then chooses among the hypotheses.
    """
    assert isinstance(validator, TranslationValidator) and not isinstance(model, EncoderOnly)
    decode, tokenize = validator.decode, validator.config.tokenize
    if decode.beam == 1 or len(validator.texts) < _MIN_SENTENCES:
        return decode
    log.doing("choosing the length penalty")
    config = decode.model_copy(update={"n_best": decode.beam, "length_penalty": max(_CHOICES), "sampling": None})
    translator = Translator(model, validator.tokenizers, config, device)
    translations = translator.stream(source for source, _ in validator.texts)
    candidates = [translation.hypotheses for translation in translations]
    references = [reference for _, reference in validator.texts]
    scores = {alpha: _bleu(candidates, references, alpha, tokenize) for alpha in (decode.length_penalty, *_CHOICES)}
    best = max(_CHOICES, key=scores.__getitem__)
    log.info(
        f"length penalty {best:g}: validation BLEU {scores[best]:.2f} with beam {decode.beam}; "
        f"{decode.length_penalty:g}: {scores[decode.length_penalty]:.2f}"
    )
    return decode.model_copy(update={"length_penalty": best})


def _bleu(candidates: Sequence[Sequence[Candidate]], references: Sequence[str], alpha: float, tokenize: str) -> float:
    """Return the BLEU of the hypotheses that this length penalty chooses."""
    return score_texts([best_text(group, alpha) for group in candidates], references, tokenize).bleu


def best_text(candidates: Sequence[Candidate], alpha: float) -> str:
    """Return the text of the hypothesis that has the highest score with this length penalty."""
    return max(candidates, key=lambda h: normalise_score(h.log_prob, h.n_tokens, alpha)).text
