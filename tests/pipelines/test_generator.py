"""What a language model's front door promises, on models that say what the test wants."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import models
from regard.data.batch import Batch, collate_sources
from regard.pipelines.generator import Generator
from regard.search.decode import DecodeConfig, decode
from regard.text.tokenizer import ListTokenizer, TokenizerPair
from regard.text.vocab import EOS

LETTERS = ListTokenizer("char", "abcdefgh")
WORDS = ListTokenizer("word", ["the", "cat", "sat"])


class Nothing:
    """The state of a model that remembers nothing"""

    def select(self, rows: Tensor) -> "Nothing":
        return self


class Says(models.DecoderOnly):
    """Says one token after another, whatever it reads."""

    def __init__(self, script: Iterator[int], size: int, windowed: bool = True) -> None:
        config = models.DecoderOnlyConfig.parse({"decoder": {"kind": "transformer", "d_model": 8, "n_heads": 2}})
        super().__init__(config, size)
        self.script, self.size, self.has_limited_context = script, size, windowed
        self.prompts: list[int] = []

    def start(self, batch: Batch) -> Nothing:
        self.prompts.append(0)
        return Nothing()

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        self.prompts[-1] += 1
        chosen = next(self.script)
        return torch.full((1, self.size), -1e9).index_fill(1, torch.tensor([chosen]), 0.0), state


def counting(end_after: int) -> Iterator[int]:
    """`a` for so many steps, then EOS"""
    for _ in range(end_after):
        yield LETTERS.encode(["a"])[0][0]
    while True:
        yield EOS


def writer(script: Iterator[int], tokenizer: ListTokenizer = LETTERS, windowed: bool = True) -> Generator:
    model = Says(script, tokenizer.size, windowed)
    return Generator(model, TokenizerPair(tokenizer, tokenizer), context=8, device=torch.device("cpu"))


def test_a_text_ends_at_its_end_also_behind_the_first_context() -> None:
    # 8 steps fill the first window; the second reads BOS and 4 tokens again (its 5th step draws), and then 2 more
    text = writer(counting(8 + 4 + 2)).generate(max_new_tokens=50)
    assert text == "a" * (8 + 2)


def test_a_state_that_holds_everything_is_never_read_again() -> None:
    windowed, endless = writer(counting(10**6)), writer(counting(10**6), windowed=False)
    assert len(windowed.generate(max_new_tokens=30)) == len(endless.generate(max_new_tokens=30)) == 30
    assert isinstance(windowed.model, Says) and isinstance(endless.model, Says)
    assert len(endless.model.prompts) == 1 < len(windowed.model.prompts)


def test_words_are_set_apart_from_the_prompt() -> None:
    cat, sat = WORDS.encode(["cat sat"])[0]

    def script() -> Iterator[int]:
        yield EOS  # read the prompt's BOS; what it would say there is not asked
        yield cat
        yield sat
        yield EOS

    assert writer(script(), WORDS).generate("the", max_new_tokens=5) == "the cat sat"


def test_a_long_prompt_is_cut_for_the_beam_but_printed_whole() -> None:
    model = writer(counting(0))
    [found] = model.beam("abcdefgh" * 3, max_new_tokens=2, beam=1)
    assert found.text == "abcdefgh" * 3


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_room_behind_a_source_does_not_depend_on_the_neighbours(positions: str) -> None:
    torch.manual_seed(0)
    stack = {"kind": "transformer", "d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    config = {"kind": "decoder", "decoder": {**stack, "positions": positions, "max_len": 30}}
    model = models.build(config, 20).double().eval()
    short, long = [7, 8, 9], [10] * 20
    decoding = DecodeConfig(beam=2, min_len=26, max_len=40)
    alone = decode(model, collate_sources([short]), decoding)[0][0]
    beside = decode(model, collate_sources([short, long]), decoding)
    assert beside[0][0].ids == alone.ids
    if positions == "learned":
        assert len(alone.ids) == 30 - 1 - 4 and len(beside[1][0].ids) == 30 - 1 - 21
