"""Text generation: with scripted models that output given tokens, and with small untrained ones."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.intervention import Intervention
from regard.pipelines import target_scores
from regard.pipelines.generator import Generator
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer, Tokenizer, TokenizerPair
from regard.text.vocab import EOS
from tests.pipelines.examples import CPU, PIPELINES, STACK

LETTERS = ListTokenizer("char", "abcdefgh")
WORDS = ListTokenizer("word", ["the", "cat", "sat"])
BYTES = ByteTokenizer()
CONTEXT = 8


def test_a_context_without_room_for_a_token_is_refused() -> None:
    generator = PIPELINES["generator"]()
    tokenizers = TokenizerPair(generator.src_tokenizer, generator.tgt_tokenizer)
    for context in (0, 1, -5):
        with pytest.raises(UserError, match="context of a language model must be a whole number of at least 2"):
            Generator(generator.traced_model, tokenizers, context, generator.device)


class EmptyState:
    """The state of a model that remembers nothing."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "EmptyState":
        return self


class ScriptedModel(models.DecoderOnly):
    """Assigns probability 1 to the next token of a script at every step, whatever it reads."""

    def __init__(self, script: Iterable[int], size: int, limited_context: bool) -> None:
        super().__init__(models.DecoderOnlyConfig.parse({"decoder": STACK}), size)
        self.script, self.size, self.has_limited_context = iter(script), size, limited_context
        self.n_starts = 0

    def start(self, batch: Batch, intervention: Intervention | None = None) -> EmptyState:
        self.n_starts += 1
        return EmptyState()

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        return torch.full((1, self.size), -1e9).index_fill(1, torch.tensor([next(self.script)]), 0.0), state

    step_logits = None  # type: ignore[assignment]

    def read(self, state: Any, ids: Tensor) -> Any:
        for t in range(ids.shape[1]):
            self.step(state, ids[:, t])
        return state


def scripted_generator(
    script: Iterable[int], tokenizer: Tokenizer = LETTERS, limited_context: bool = True
) -> Generator:
    model = ScriptedModel(script, tokenizer.size, limited_context)
    return Generator(model, TokenizerPair(tokenizer, tokenizer), CONTEXT, CPU)


def letters_then_eos(n: int) -> Iterator[int]:
    """Yield the id of the letter `a` n times, then EOS forever."""
    [[letter]] = LETTERS.encode(["a"])
    return itertools.chain(itertools.repeat(letter, n), itertools.repeat(EOS))


def untrained_generator(tokenizer: Tokenizer) -> Generator:
    torch.manual_seed(0)
    model = models.build({"kind": "decoder", "decoder": STACK}, tokenizer.size).eval()
    return Generator(model, TokenizerPair(tokenizer, tokenizer), CONTEXT, CPU)


def test_generation_stops_at_eos_after_the_first_context() -> None:
    # 8 steps fill the first context. The second one reads BOS and 4 tokens again, which takes 4 steps whose outputs
    # are not used, and generates 2 more.
    text = scripted_generator(letters_then_eos(8 + 4 + 2)).generate(max_new_tokens=50)
    assert text == "a" * (8 + 2)


def test_a_model_with_unlimited_context_reads_the_text_once() -> None:
    limited = scripted_generator(letters_then_eos(10**6))
    unlimited = scripted_generator(letters_then_eos(10**6), limited_context=False)
    assert len(limited.generate(max_new_tokens=30)) == len(unlimited.generate(max_new_tokens=30)) == 30
    one, several = (generator.decoding_model(generator.decode_config) for generator in (unlimited, limited))
    assert isinstance(one, ScriptedModel) and isinstance(several, ScriptedModel)
    assert one.n_starts == 1 < several.n_starts


def test_a_space_separates_generated_words_from_the_prompt() -> None:
    cat, sat = WORDS.encode(["cat sat"])[0]
    after_bos = EOS  # not used, because the prompt says what follows BOS
    generator = scripted_generator([after_bos, cat, sat, EOS], WORDS)
    assert generator.generate("the", max_new_tokens=5) == "the cat sat"


def test_beam_search_cuts_a_long_prompt_but_returns_all_of_it() -> None:
    [best] = scripted_generator(letters_then_eos(0)).beam("abcdefgh" * 3, max_new_tokens=2, beam=1)
    assert best.text == "abcdefgh" * 3


@pytest.mark.parametrize("tokenizer", [LETTERS, WORDS, BYTES], ids=["letters", "words", "bytes"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_streamed_pieces_joined_are_the_generated_text(tokenizer: Tokenizer, seed: int) -> None:
    generator = untrained_generator(tokenizer)
    prompt = "the" if tokenizer is WORDS else "ab"
    pieces = list(generator.stream(prompt, max_new_tokens=30, seed=seed))
    assert all(pieces)
    assert prompt + "".join(pieces) == generator.generate(prompt, max_new_tokens=30, seed=seed)
    counted = list(generator.stream_pieces(prompt, 30, seed=seed))
    assert [piece.text for piece in counted if piece.text] == pieces
    assert [piece.n_tokens for piece in counted] == sorted({piece.n_tokens for piece in counted})


def test_pieces_count_tokens_and_not_characters() -> None:
    ids = BYTES.encode(["aé€b"])[0]
    after_bos = EOS
    pieces = list(scripted_generator([after_bos, *ids, EOS], BYTES, limited_context=False).stream_pieces("x", 20))
    assert [(piece.text, piece.n_tokens) for piece in pieces] == [("a", 1), ("é", 3), ("€", 6), ("b", 7)]


def test_tokens_of_an_incomplete_character_are_counted() -> None:
    """The limit is reached after one of the two bytes of é: 2 tokens, one character."""
    generator = scripted_generator(BYTES.encode(["aé"])[0], BYTES)
    assert [(piece.text, piece.n_tokens) for piece in generator.stream_pieces("", 2)] == [("a", 1), ("", 2)]
    generator = scripted_generator(BYTES.encode(["aé"])[0], BYTES)
    assert list(generator.stream("", 2)) == ["a"]


@pytest.mark.parametrize("text", ["", "a", "the cat", "a red cat sees the witch"])
def test_the_score_of_a_text_is_the_sum_of_next_token_log_probabilities(text: str) -> None:
    generator = PIPELINES["generator"]()
    assert isinstance(generator, Generator)
    tokens = [*generator.input_tokens(text), "</s>"]
    log_prob = 0.0
    for n, token in enumerate(tokens):
        prompt = " ".join(text.split()[:n])
        log_prob += math.log(dict(generator.next(prompt, k=generator.tokenizer.size))[token])
    assert generator.score([text]) == pytest.approx([log_prob], abs=1e-5)
    assert generator.score(["a", text])[1] == pytest.approx(log_prob, abs=1e-5)


def test_the_score_of_a_text_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, texts = PIPELINES["generator"](), ["a", "", "the cat", "a red cat sees the witch", "cat", "the"]
    assert isinstance(generator, Generator)
    expected = [generator.score([text])[0] for text in texts]
    assert generator.score(texts) == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(target_scores, "_LOGITS", 60)
    assert generator.score(texts) == pytest.approx(expected, abs=1e-5)
    assert generator.score([]) == []


@pytest.mark.parametrize("tokenizer", [LETTERS, WORDS, BYTES], ids=["letters", "words", "bytes"])
def test_tokens_are_scored_as_they_are_sampled(tokenizer: Tokenizer) -> None:
    generator, prompt = untrained_generator(tokenizer), "the" if tokenizer is WORDS else "ab"
    ids = list(generator.tokenizer.encode([prompt])[0])
    pieces = list(generator.stream_pieces(ids, 4, n_top=3, seed=2))
    assert [(p.text, p.n_tokens) for p in pieces] == [
        (p.text, p.n_tokens) for p in generator.stream_pieces(prompt, 4, seed=2)
    ]
    scores = [score for piece in pieces for score in piece.scores]
    assert len(scores) == pieces[-1].n_tokens and all(len(score.top) == 3 for score in scores)
    forced = generator.score_tokens([*ids, *(score.id for score in scores)], n_top=1)
    assert [score.log_prob for score in scores] == pytest.approx([s.log_prob for s in forced[len(ids) :]], abs=1e-4)
    assert all(score.top[0][1] >= score.log_prob - 1e-6 for score in (*scores, *forced))
    with pytest.raises(UserError, match="does not fit"):
        generator.score_tokens(ids * 100)


def test_ids_of_a_prompt_are_encoded_like_its_text() -> None:
    generator = PIPELINES["generator"]()
    encoded = generator.encode("the cat")
    from_ids = generator.encode_ids(encoded.prefix)
    assert from_ids.src.shape == encoded.src.shape == (1, 0)
    assert (from_ids.prefix, from_ids.src_tokens) == (encoded.prefix, ())
