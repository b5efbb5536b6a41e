"""Embeddings taken over from another model: rows of equal pieces are equal, whatever their ids are."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from regard import models
from regard.models.piece_rows import PieceCounts, copy_rows, match_pieces, piece_tables
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.vocab import SPECIALS

TEXTS = ["the cat sat on the mat", "a cat and a dog", "the dogs bark at the cats"] * 3
OTHER = ["die katze und the cats", "ein hund , der bellt", "the hundred мир"] * 3
SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}


def words(*symbols: str) -> ListTokenizer:
    return ListTokenizer("word", symbols)


def joint(tokenizer: Tokenizer) -> TokenizerPair:
    return TokenizerPair(tokenizer, tokenizer)


def build(tokenizers: TokenizerPair, seed: int, **options: Any) -> models.Model:
    torch.manual_seed(seed)
    return models.build({**SMALL, **options}, tokenizers.tgt.size, None if tokenizers.joint else tokenizers.src.size)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_pieces_are_matched_by_their_text(kind: str) -> None:
    config = TokenizerConfig.parse({"kind": kind, "vocab_size": 330})
    mine, theirs = train_tokenizer(OTHER, config), train_tokenizer(TEXTS, config)
    matches = match_pieces(mine, theirs)
    names, others = mine.tokens(range(mine.size)), theirs.tokens(range(theirs.size))
    assert matches[: len(SPECIALS)] == [(i,) for i in range(len(SPECIALS))]
    for name, parts in zip(names, matches, strict=True):
        assert not parts or "".join(others[i] for i in parts) == name
        assert (len(parts) == 1) == (name in others)
    assert sum(PieceCounts.of(matches)) == mine.size
    assert not any(parts for name, parts in zip(names, matches, strict=True) if "м" in name)
    assert match_pieces(mine, mine) == [(i,) for i in range(mine.size)]


def test_a_piece_is_divided_into_the_longest_known_ones() -> None:
    def pieces(*names: str) -> ListTokenizer:
        return ListTokenizer("char", names)

    theirs = pieces("h", "ho", "t", "tdo", "dogs", "gs", "▁")
    ids = {name: len(SPECIALS) + i for i, name in enumerate(("h", "ho", "t", "tdo", "dogs", "gs", "▁"))}
    matches = match_pieces(pieces("hotdogs", "▁dogs", "dog", "h"), theirs)[len(SPECIALS) :]
    assert matches == [(ids["ho"], ids["tdo"], ids["gs"]), (ids["▁"], ids["dogs"]), (), (ids["h"],)]
    # Every word of a word tokenizer starts with ▁, so that none is a part of another one.
    assert match_pieces(words("catdog", "dog"), words("cat", "dog"))[len(SPECIALS) :] == [(), (len(SPECIALS) + 1,)]


def test_labels_are_not_made_of_pieces() -> None:
    labels, other = ListTokenizer("label", ["good", "bad"]), ListTokenizer("label", ["bad", "goodbad"])
    assert match_pieces(other, labels)[len(SPECIALS) :] == [(len(SPECIALS) + 1,), ()]
    assert not any(match_pieces(labels, ListTokenizer("char", "good")))


def rows(model: models.Model, tokenizers: TokenizerPair, role: str) -> dict[str, torch.Tensor]:
    """Return the row of each piece in a table of the model."""
    parameter, side = piece_tables(model)[role]
    tokenizer: Tokenizer = getattr(tokenizers, side)
    return dict(zip(tokenizer.tokens(range(tokenizer.size)), parameter.detach(), strict=True))


PAIRS = {
    "joint": joint(words("a", "b", "c")),
    "other joint": joint(words("c", "x", "a")),
    "separate": TokenizerPair(words("a", "b"), words("b", "d", "c")),
    "other separate": TokenizerPair(words("b", "e", "a"), words("c", "b")),
}
ROLES = ("decoder weight", "encoder weight", "output weight", "output bias")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("before", ["joint", "separate"])
@pytest.mark.parametrize("after", ["other joint", "other separate"])
def test_rows_of_equal_pieces_are_copied_in_every_table(before: str, after: str, tied: bool) -> None:
    parents, tokenizers = PAIRS[before], PAIRS[after]
    parent, model = build(parents, 1, tied=tied, output_bias=True), build(tokenizers, 2, tied=tied, output_bias=True)
    with torch.no_grad():
        for m in (parent, model):
            m.output.bias.normal_()
    start = copy.deepcopy(model)
    copied, tables = copy_rows(model, tokenizers, parent, parents), piece_tables(model)
    changed = 0
    for role in ROLES:
        sharing = [r for r in ROLES if tables[r].parameter is tables[role].parameter]
        origins = [rows(parent, parents, r) for r in sharing]  # a shared table takes a row from the first that has it
        for piece, row in rows(model, tokenizers, role).items():
            origin = next((o[piece] for o in origins if piece in o), None)
            assert torch.equal(row, rows(start, tokenizers, role)[piece] if origin is None else origin), (role, piece)
            changed += 0 if origin is None or role != sharing[0] else row.numel()
    assert copied == changed > 0


def test_rows_of_other_pieces_are_the_mean_of_their_parts() -> None:
    config = TokenizerConfig(vocab_size=300)
    parents, tokenizers = joint(train_tokenizer(TEXTS, config)), joint(train_tokenizer(OTHER, config))
    parent, model = build(parents, 1), build(tokenizers, 2)
    copy_rows(model, tokenizers, parent, parents)
    table, source = (piece_tables(m)["decoder weight"].parameter for m in (model, parent))
    joined = [(i, parts) for i, parts in enumerate(match_pieces(tokenizers.tgt, parents.tgt)) if len(parts) > 1]
    assert joined
    for i, parts in joined:
        torch.testing.assert_close(table[i], source[list(parts)].mean(0))


def test_a_model_with_the_same_tokenizer_gets_the_same_tables() -> None:
    pair: Sequence[models.Model] = [build(PAIRS["joint"], seed) for seed in (1, 2)]
    copy_rows(pair[1], PAIRS["joint"], pair[0], PAIRS["joint"])
    for role, (parameter, _) in piece_tables(pair[1]).items():
        assert torch.equal(parameter, piece_tables(pair[0])[role].parameter)
