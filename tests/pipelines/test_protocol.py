"""The members that all pipelines share behave alike in each of them."""

import copy
from functools import cache

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models.intervention import Intervention
from regard.models.record import KINDS, AttentionRecord
from regard.pipelines.base import Pipeline
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from regard.search.decode import decode
from regard.text.vocab import EOS, PAD, SPECIALS
from tests.pipelines.examples import PIPELINES, TEXT, example_input

every_pipeline = pytest.mark.parametrize("name", PIPELINES)


@cache
def names_of(kind: type[Pipeline]) -> list[str]:
    return [name for name, make in PIPELINES.items() if isinstance(make(), kind)]


def assert_same_record(left: AttentionRecord, right: AttentionRecord) -> None:
    assert (left.source_tokens, left.target_tokens) == (right.source_tokens, right.target_tokens)
    for kind in KINDS:
        np.testing.assert_allclose(left.weights(kind), right.weights(kind), rtol=0, atol=1e-6)


@every_pipeline
def test_encode_returns_the_input_as_the_model_reads_it(name: str) -> None:
    pipeline = PIPELINES[name]()
    encoded, tokens = pipeline.encode(example_input(pipeline)), pipeline.input_tokens(example_input(pipeline))
    match pipeline:
        case Captioner():
            assert tokens == [] and encoded.src.shape == (1, 3, 8, 8)
            assert encoded.src_tokens == ("▁0,0", "▁0,1", "▁1,0", "▁1,1")
        case Generator():
            assert encoded.src.shape == (1, 0) and pipeline.tgt_tokenizer.tokens(encoded.prefix) == tokens
        case _:
            assert [token.removeprefix("▁") for token in tokens] == TEXT.split()
            assert encoded.src_tokens == (*tokens, SPECIALS[EOS])
            assert encoded.src.tolist() == [[*encoded.src_ids, EOS]]


@every_pipeline
def test_a_record_covers_the_input_and_the_target_ids(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    encoded, record = pipeline.encode(source), pipeline.record(source)
    target = pipeline.target_ids(encoded)
    assert record.source_tokens == encoded.src_tokens
    assert record.target_tokens == tuple(pipeline.tgt_tokenizer.tokens(target))
    assert record.encoder.shape[2:] == (len(encoded.src_tokens),) * 2
    assert record.decoder.shape[2:] == (len(target),) * 2
    assert record.cross.shape[2:] == (len(target), len(encoded.src_tokens))
    assert_same_record(pipeline.trace(encoded, target)[1], record)


@every_pipeline
def test_attention_sites_agree_with_the_record(name: str) -> None:
    pipeline = PIPELINES[name]()
    record, sites = pipeline.record(example_input(pipeline)), pipeline.attention_sites()
    assert sites.keys() == {kind for kind in KINDS if record.weights(kind).size}
    for kind, site in sites.items():
        assert record.weights(kind).shape[:2] == (site.layers, site.heads)
        future = np.triu(record.weights(kind), k=1)
        assert site.causal == (kind != "cross" and not future.any())


@pytest.mark.parametrize("name", ["concatenation", "learned positions, concatenation"])
def test_source_and_target_of_a_decoder_only_translator_are_causal(name: str) -> None:
    sites = PIPELINES[name]().attention_sites()
    assert {kind: site.causal for kind, site in sites.items()} == {"encoder": True, "decoder": True, "cross": False}


@every_pipeline
def test_record_head_is_the_part_of_the_record(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    record = pipeline.record(source)
    for kind, site in pipeline.attention_sites().items():
        for layer, head in np.ndindex(site.layers, site.heads):
            head_record = pipeline.record_head(source, kind=kind, layer=layer, head=head)
            np.testing.assert_allclose(head_record.weights, record.weights(kind)[layer, head], rtol=0, atol=1e-6)
            assert (head_record.rows, head_record.columns) == record.axis_tokens(kind)
            np.testing.assert_allclose(head_record.output, head_record.weights @ head_record.v)
    assert pipeline.record_head(source).kind == pipeline.attention_kind
    for kind in set(KINDS) - pipeline.attention_sites().keys():
        with pytest.raises(UserError, match=f"no {kind} attention"):
            pipeline.record_head(source, kind=kind)


@pytest.mark.parametrize("name", [*names_of(Translator), *names_of(Captioner)])
def test_recording_the_own_output_equals_recording_it_as_target(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    encoded = pipeline.encode(source)
    ids = pipeline.target_ids(encoded)
    output = pipeline.decode_target(ids)
    assert pipeline.target_ids(encoded, output) == ids
    assert_same_record(pipeline.record(source, output), pipeline.record(source))
    head, forced = (pipeline.record_head(source, target, "cross") for target in (None, output))
    np.testing.assert_allclose(forced.q, head.q, rtol=0, atol=1e-6)
    other = pipeline.record(source, "witch sleeps")
    assert [token.removeprefix("▁") for token in other.target_tokens] == ["witch", "sleeps", SPECIALS[EOS]]


@pytest.mark.parametrize("name", [*names_of(Generator), *names_of(Classifier)])
def test_a_target_and_a_rank_are_refused_where_there_is_no_output_to_choose(name: str) -> None:
    pipeline = PIPELINES[name]()
    with pytest.raises(UserError, match="for translators and captioners"):
        pipeline.record(TEXT, "witch sleeps")
    with pytest.raises(UserError, match="for translators and captioners"):
        pipeline.target_ids(pipeline.encode(TEXT), rank=2)


@pytest.mark.parametrize("name", [*names_of(Translator), *names_of(Captioner)])
def test_a_rank_selects_one_of_the_own_outputs(name: str) -> None:
    pipeline = PIPELINES[name]()
    encoded = pipeline.encode(example_input(pipeline))
    config = pipeline.decode_config.model_copy(update={"beam": 3, "n_best": 3})
    hypotheses = decode(pipeline.model, encoded.batch(), config)[0]  # type: ignore[arg-type]
    assert pipeline.target_ids(encoded, rank=3) == [*hypotheses[2].ids, EOS], "a beam of 2 is widened to 3"
    with pytest.raises(UserError, match="leave the rank or the target out"):
        pipeline.target_ids(encoded, "witch", rank=2)
    with pytest.raises(UserError, match=r"rank 30: the search found \d+ outputs"):
        pipeline.decode_config = pipeline.decode_config.model_copy(update={"max_len": 1})
        pipeline.target_ids(encoded, rank=30)


@pytest.mark.parametrize("name", ["transformer", "captioner"])
def test_weights_that_are_not_numbers_are_named_as_the_cause(name: str) -> None:
    pipeline = PIPELINES[name]()
    with torch.no_grad():
        pipeline.traced_model.output.weight.fill_(torch.nan)
    source = example_input(pipeline)
    run = pipeline.caption if isinstance(pipeline, Captioner) else pipeline.translate  # type: ignore[attr-defined]
    for call in (lambda: run([source]), lambda: pipeline.record(source)):
        with pytest.raises(UserError, match="the model returns no probabilities"):
            call()


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in names_of(Captioner)])
def test_an_empty_text_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="the text is empty"):
        PIPELINES[name]().record(" ")


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in names_of(Captioner)])
def test_an_image_is_refused_by_a_model_of_texts(name: str) -> None:
    with pytest.raises(UserError, match="reads text, not images"):
        PIPELINES[name]().record(np.zeros((8, 8, 3), dtype=np.uint8))


@every_pipeline
def test_tracing_with_heads_off_equals_zeros_in_the_output_matrices(name: str) -> None:
    pipeline = PIPELINES[name]()
    model = pipeline.traced_model
    heads = [
        (kind, 0, head)
        for kind in KINDS
        for module in model.attention_modules(kind)[:1]
        if hasattr(module, "out")
        for head in range(module.n_heads)
    ]
    encoded = pipeline.encode(example_input(pipeline))
    target = pipeline.target_ids(encoded)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    traces, record = pipeline.trace(encoded, target, Intervention.switch_off(model, heads))
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    zeroed = copy.deepcopy(model)
    with torch.no_grad():
        for kind, _, _ in heads:
            zeroed.attention_modules(kind)[0].out.weight.zero_()  # type: ignore[attr-defined]
        expected = zeroed.trace_attention(encoded.batch(target))
    assert_same_record(record, AttentionRecord.from_traces(expected, record.source_tokens, record.target_tokens))
    for kind in KINDS:
        for trace, other in zip(getattr(traces, kind), getattr(expected, kind), strict=True):
            torch.testing.assert_close(trace.output, other.output, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in names_of(Captioner)])
def test_an_input_of_the_maximum_length_works_and_a_longer_one_is_refused_or_cut(name: str) -> None:
    pipeline = PIPELINES[name]()
    limit = pipeline.max_input_tokens
    if limit is None:
        assert len(pipeline.record(" ".join(["cat"] * 100)).source_tokens) == 101
        return
    n_recorded = recorded_tokens(pipeline, limit)
    assert n_recorded == limit
    if isinstance(pipeline, Generator):  # the text itself is the output, so all of the context can be recorded
        assert recorded_tokens(pipeline, limit + 1) == recorded_tokens(pipeline, limit + 2) == pipeline.context
        return
    try:
        assert recorded_tokens(pipeline, limit + 1) == limit
    except UserError as error:
        assert "split it" in str(error) and "\n" not in str(error)
    if isinstance(pipeline, Translator):
        assert pipeline.translate([" ".join(["cat"] * limit)])[0].text
        with pytest.raises(UserError, match="split it"):
            pipeline.translate([" ".join(["cat"] * (limit + 1))])


def recorded_tokens(pipeline: Pipeline, n_words: int) -> int:
    """Record a text of `n_words` words; return how many of them the record has."""
    record = pipeline.record(" ".join(["cat"] * n_words))
    tokens = record.source_tokens or record.target_tokens
    return sum(token == "▁cat" for token in tokens)


def test_maximum_lengths() -> None:
    limits = {name: make().max_input_tokens for name, make in PIPELINES.items()}
    assert limits == {
        **dict.fromkeys(PIPELINES),
        "generator": 16 - 1,  # the next token needs a position too
        "rnn-fed": 16 - 1,  # EOS takes one position
        "learned positions": 12 - 1,
        "learned positions, concatenation": 12 - 3,  # SEP, BOS and one target token
        "learned positions, classifier": 12 - 1,
        "learned positions in the encoder only": 12 - 1,
        "location": 12 - 1,
        "location, rnn": 12 - 1,
        "ensemble with a limit": 12 - 1,
    }


@every_pipeline
def test_hidden_tokens_get_no_attention_or_are_refused(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    if not pipeline.can_hide_tokens:
        with pytest.raises(UserError, match="hid"):
            pipeline.encode(source, hidden=[1])
        return
    encoded, hidden = pipeline.encode(source), pipeline.encode(source, hidden=[1, 3])
    assert (hidden.src_ids, hidden.src_tokens) == (encoded.src_ids, encoded.src_tokens)
    assert hidden.src.shape == encoded.src.shape
    assert (hidden.src[0] == PAD).nonzero().flatten().tolist() == [1, 3]
    target = pipeline.target_ids(encoded)
    (_, record), (_, plain) = pipeline.trace(hidden, target), pipeline.trace(encoded, target)
    for kind in {"encoder", "cross"} & pipeline.attention_sites().keys():
        assert record.weights(kind).shape == plain.weights(kind).shape
        assert (record.weights(kind)[..., [1, 3]] == 0).all() and (plain.weights(kind)[..., [1, 3]] != 0).all()


def test_which_pipelines_can_hide_tokens() -> None:
    assert {name for name, make in PIPELINES.items() if not make().can_hide_tokens} == {
        "captioner",
        "generator",
        "concatenation",
        "learned positions, concatenation",
        "rnn-additive",
        "rnn-fed",
        "location, rnn",
        "local attention, rnn",
        "state-space",
        "ensemble",  # its second member is an RNN
        "ensemble with a limit",
    }


@pytest.mark.parametrize("name", names_of(Translator))
@pytest.mark.parametrize("beam", [1, 3])
def test_translate_returns_the_target_ids(name: str, beam: int) -> None:
    pipeline = PIPELINES[name]()
    assert isinstance(pipeline, Translator)
    pipeline.decode_config = pipeline.decode_config.model_copy(update={"beam": beam})
    ids = pipeline.target_ids(pipeline.encode(TEXT))
    [translation] = pipeline.translate([TEXT], beam=beam, attention=True)
    assert [*translation.tokens, SPECIALS[EOS]] == pipeline.tgt_tokenizer.tokens(ids)
    assert translation.attention is not None
    assert_same_record(translation.attention, pipeline.record(TEXT))


def test_caption_returns_the_target_ids() -> None:
    captioner = PIPELINES["captioner"]()
    assert isinstance(captioner, Captioner)
    image = example_input(captioner)
    [caption] = captioner.caption([image], attention=True)
    ids = captioner.target_ids(captioner.encode(image))
    assert [*caption.tokens, SPECIALS[EOS]] == captioner.tgt_tokenizer.tokens(ids)
    record = captioner.record(image)
    assert caption.regions is not None
    np.testing.assert_allclose(caption.regions, captioner.region_weights(record), rtol=0, atol=1e-6)
    assert caption.regions.shape == (1, 2, len(ids), 2, 2)
