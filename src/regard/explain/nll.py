"""The negative log-likelihood of a reference, teacher forced: −log p of each word, summed (P5, P20)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.decode_setup import DecodeSetup
from regard.explain.explanation import Explanation, Step, matrix, max_difference, step, table
from regard.explain.formula import apply, expr, sub, sum_over
from regard.explain.lecture_table import NEXT_PROBABILITIES, TOKENS, A, B, C, join_tokens
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.search.decode import DecodeConfig
from regard.text.vocab import EOS
from regard.train.loss import smoothed_cross_entropy

_REFERENCE = (A, C, B)
_CHAIN = expr(
    apply("NLL", "y"), "= −", sum_over("t", apply("log", apply("p", expr(sub("y", "t"), "|", sub("y", "<t"), ", x"))))
)
_PERPLEXITY = expr("perplexity =", apply("exp", expr(apply("NLL", "y"), "/ T")))


def explain_nll() -> Explanation:
    setup = DecodeSetup.of_lecture(DecodeConfig())
    log_probs, of_reference = setup.score_stepwise(_REFERENCE)
    targets = torch.tensor([*_REFERENCE, EOS])
    words = [TOKENS[int(i)] for i in targets]
    prefixes = [join_tokens(_REFERENCE[:t]) or "(start)" for t in range(len(words))]
    best = [TOKENS[int(i)] for i in log_probs.argmax(-1)]
    nll, product = -of_reference.sum(), of_reference.exp().prod()
    return Explanation(
        f"The negative log-likelihood of “{join_tokens([*_REFERENCE, EOS])}”",
        (
            step(
                "The probabilities of the next token, from the lecture's table for search (`regard explain greedy`).",
                matrix(
                    "after",
                    [NEXT_PROBABILITIES[_REFERENCE[:t]] for t in range(len(words))],
                    prefixes,
                    list(TOKENS.values()),
                ),
            ),
            _word_step(of_reference, prefixes, words, best),
            step(
                "Probabilities are multiplied, so their logarithms are added.",
                _CHAIN,
                matrix("NLL", nll),
                matrix("P(y)", product),
                max_difference(nll, -product.log(), "largest difference from −log P(y)"),
                max_difference(nll, _library_loss(log_probs, targets), "largest difference from the library's loss"),
            ),
            step(
                "Per word, as a perplexity: 1 is perfect.", _PERPLEXITY, matrix("perplexity", (nll / len(words)).exp())
            ),
        ),
        f"NLL = {format_number(float(nll))} = −log {format_number(float(product))}. At step 2 the model would choose "
        f"{best[1]}, but it goes on from the reference's {words[1]}: this is teacher forcing. Training lowers this sum "
        "over all sentences.",
    )


@torch.no_grad()
def explain_nll_on_model(model_input: ModelInput) -> Explanation:
    if not model_input.pipeline.generates:
        raise UserError("this model predicts labels; the NLL of a reference is for models that generate tokens")
    batch, model = model_input.batch, model_input.model
    logits = model(batch)[0].double()
    log_probs, targets = logits.log_softmax(-1), batch.tgt_out[0]
    of_reference = log_probs.gather(1, targets[:, None]).squeeze(1)
    nll = -of_reference.sum()
    best = [model_input.output_label(int(i)) for i in log_probs.argmax(-1)]
    reads, words = model_input.read_labels, model_input.target_labels
    worst = int(of_reference.argmin())
    return Explanation(
        f"The negative log-likelihood of “{model_input.output_text}”",
        (
            _word_step(of_reference, reads, words, best),
            step(
                "Added up over the sentence.",
                _CHAIN,
                matrix("NLL", nll),
                max_difference(nll, _library_loss(logits, targets), "largest difference from the library's loss"),
            ),
            step(
                "Per token, as a perplexity: 1 is perfect.", _PERPLEXITY, matrix("perplexity", (nll / len(words)).exp())
            ),
        ),
        f"NLL = {format_number(float(nll))}, {format_number(float(nll) / len(words))} per token. The least expected is "
        f"“{words[worst]}”, with "
        f"p = {format_number(float(of_reference[worst].exp()))}.",
    )


def _word_step(of_reference: Tensor, reads: Sequence[str], words: Sequence[str], best: Sequence[str]) -> Step:
    rows = list(zip(words, of_reference.exp().tolist(), (-of_reference).tolist(), best, strict=True))
    return step(
        "Teacher forcing: at every step the model reads the words of the reference, whatever it would have chosen "
        "itself (last column). The probability of the reference's next word, and its negative logarithm.",
        table("reads", ("reference", "p", "−log p", "most likely"), rows, reads),
    )


def _library_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of training without label smoothing"""
    return smoothed_cross_entropy(logits[None], targets[None], 0.0)[1]
