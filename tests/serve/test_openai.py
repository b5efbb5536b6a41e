"""OpenAI's client against a running server: each call works, or is refused in OpenAI's own format.

Results are checked by what must hold between them: two choices for n=2, streamed = whole, a list = each alone, …
"""

import base64
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from openai import OpenAI

import regard as library
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from tests.serve.live import serving
from tests.serve.models import STACK, save_toy, toy_captioner, toy_decoder_only

TEXT = {"model": "text", "prompt": "a b", "max_tokens": 8, "seed": 3, "temperature": 1.1}
TRANSLATE: dict[str, Any] = {"model": "toy", "prompt": "a b c"}
CHAT: dict[str, Any] = {"model": "toy", "messages": [{"role": "user", "content": "a b c"}]}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """toy: a translator and text: a language model, whose outputs vary; loop: a translator that repeats itself"""
    folder = tmp_path_factory.mktemp("models")
    untied = {"kind": "encoder-decoder", "encoder": STACK, "decoder": STACK, "tied": False}
    return {
        "toy": save_toy(folder / "toy", untied),
        "loop": save_toy(folder / "loop", STACK),
        "text": save_toy(folder / "text", {"kind": "decoder", "decoder": STACK, "tied": False}, "text"),
        "bytes": save_toy(folder / "bytes", {"kind": "decoder", "decoder": STACK}, "text", tokenizer="bytes"),
        "captioner": toy_captioner(folder / "captioner"),
        "one-text": toy_decoder_only(folder / "one-text"),
    }


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[str]:
    with serving(models) as (address, _):
        yield address


@pytest.fixture(scope="module")
def client(server: str) -> OpenAI:
    return OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def translator(models: dict[str, Path]) -> Translator:
    pipeline = library.load(models["toy"])
    assert isinstance(pipeline, Translator)
    return pipeline


@pytest.fixture(scope="module")
def generator(models: dict[str, Path]) -> Generator:
    pipeline = library.load(models["text"])
    assert isinstance(pipeline, Generator)
    return pipeline


def complete(client: OpenAI, **options: Any) -> Any:
    return client.completions.create(**options)


def text_of(client: OpenAI, **options: Any) -> str:
    [choice] = complete(client, **options).choices
    return choice.text  # type: ignore[no-any-return]


def chat(client: OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(**options)


def streamed(client: OpenAI, **options: Any) -> tuple[dict[int, str], dict[int, str], list[Any]]:
    """Texts and finish reasons by the number of the choice, and all chunks"""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    chunks = list(complete(client, stream=True, **options))
    for chunk in chunks:
        for choice in chunk.choices:
            assert choice.index not in reasons, "nothing follows the end of a choice"
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, chunks


def test_models_are_listed_and_retrieved(client: OpenAI) -> None:
    listed = list(client.models.list())
    assert [model.id for model in listed] == ["toy", "loop", "text", "bytes", "captioner", "one-text"]
    assert client.models.retrieve("loop") == listed[1]


def test_a_language_model_continues_the_prompt(client: OpenAI, generator: Generator) -> None:
    whole = complete(client, **TEXT)
    expected = generator.generate("a b", max_new_tokens=8, temperature=1.1, top_p=1.0, seed=3)
    assert "a b" + whole.choices[0].text == expected and whole.object == "text_completion"
    assert whole.choices[0].finish_reason == "stop", "the model has ended the text"
    assert complete(client, **{**TEXT, "max_tokens": 4}).choices[0].finish_reason == "length"
    n, usage = len(whole.choices[0].text.split()), whole.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (2, n, 2 + n)
    assert complete(client, **TEXT).choices == whole.choices, "the same seed gives the same text"
    greedy = {**TEXT, "temperature": 0}
    assert text_of(client, **greedy) == text_of(client, **{**greedy, "seed": 4})
    assert text_of(client, **{**TEXT, "top_p": 0}) == text_of(client, **greedy)
    assert text_of(client, **{**TEXT, "seed": -1}) == text_of(client, **{**TEXT, "seed": 2**63 - 1})


def test_a_stream_is_the_whole_in_parts(client: OpenAI) -> None:
    for options in ({**TEXT, "max_tokens": 20}, {**TEXT, "n": 2, "prompt": ["a b", "c"]}, TRANSLATE):
        whole = complete(client, **options)
        texts, reasons, _ = streamed(client, **options)
        assert [texts[choice.index] for choice in whole.choices] == [choice.text for choice in whole.choices]
        assert [reasons[c.index] for c in whole.choices] == [c.finish_reason for c in whole.choices]


def test_usage_is_streamed_if_it_is_wanted(client: OpenAI) -> None:
    for options in (TEXT, {**TRANSLATE, "n": 2}):
        whole = complete(client, **options)
        _, _, chunks = streamed(client, **options, stream_options={"include_usage": True})
        assert chunks[-1].usage == whole.usage and chunks[-1].choices == []
        assert all(chunk.usage is None and chunk.choices for chunk in chunks[:-1])
        assert all(chunk.usage is None for chunk in streamed(client, **options)[2])


def test_several_choices(client: OpenAI, translator: Translator) -> None:
    two = complete(client, **TEXT, n=2)
    assert [choice.index for choice in two.choices] == [0, 1]
    seeds = [text_of(client, **{**TEXT, "seed": seed}) for seed in (3, 4)]
    assert [choice.text for choice in two.choices] == seeds and seeds[0] != seeds[1]
    n_tokens = sum(len(text.split()) for text in seeds)
    assert (two.usage.prompt_tokens, two.usage.completion_tokens) == (2, n_tokens)
    translations = complete(client, **TRANSLATE, n=3)
    [expected] = translator.translate(["a b c"], n_best=3)
    assert [choice.text for choice in translations.choices] == [h.text for h in expected.hypotheses]
    assert translations.usage.completion_tokens == sum(len(h.ids) for h in expected.hypotheses)


def test_choices_of_a_text_of_several_sentences_have_all_sentences(client: OpenAI) -> None:
    first = [choice.text for choice in complete(client, **{**TRANSLATE, "prompt": "a b!"}, n=2).choices]
    second = [choice.text for choice in complete(client, **{**TRANSLATE, "prompt": "c d"}, n=2).choices]
    both = complete(client, **{**TRANSLATE, "prompt": "a b!\n\n  c d"}, n=2)
    assert [choice.text for choice in both.choices] == [f"{a}\n\n  {b}" for a, b in zip(first, second, strict=True)]


def test_the_best_of_several_choices(client: OpenAI) -> None:
    def mean(choice: Any) -> float:
        return float(np.mean(choice.logprobs.token_logprobs))

    all_of_them = complete(client, **TEXT, n=5, logprobs=0)
    best = complete(client, **TEXT, n=2, best_of=5, logprobs=0)
    ranked = sorted(all_of_them.choices, key=lambda choice: -mean(choice))
    assert [choice.text for choice in best.choices] == [choice.text for choice in ranked[:2]]
    assert complete(client, **TEXT, best_of=5).choices[0].text == ranked[0].text
    assert complete(client, **TEXT, best_of=5).choices[0].logprobs is None
    assert best.usage.completion_tokens == all_of_them.usage.completion_tokens
    assert complete(client, **TRANSLATE, best_of=8).usage.prompt_tokens == 3


def test_a_list_of_prompts_is_each_alone(client: OpenAI) -> None:
    for options in (TEXT, TRANSLATE):
        prompts = ["a b", "c", "d e f g"]
        alone = [complete(client, **{**options, "prompt": prompt}) for prompt in prompts]
        together = complete(client, **{**options, "prompt": prompts})
        assert [choice.text for choice in together.choices] == [one.choices[0].text for one in alone]
        assert [choice.index for choice in together.choices] == [0, 1, 2]
        assert together.usage.total_tokens == sum(one.usage.total_tokens for one in alone)


def test_prompts_as_token_ids(client: OpenAI, generator: Generator) -> None:
    texts = ["a b", "c d e"]
    rows = generator.tokenizer.encode(texts)
    for options in (TEXT, TRANSLATE):
        expected = [text_of(client, **{**options, "prompt": text}) for text in texts]
        assert text_of(client, **{**options, "prompt": rows[0]}) == expected[0]
        assert [choice.text for choice in complete(client, **{**options, "prompt": rows}).choices] == expected
    assert text_of(client, **{**TEXT, "prompt": None}) == text_of(client, **{**TEXT, "prompt": ""})


def test_null_parameters_are_left_out(client: OpenAI) -> None:
    names = ("n", "logprobs", "echo", "suffix", "stop", "stream", "best_of", "top_p", "logit_bias", "stream_options")
    nulls = dict.fromkeys((*names, "presence_penalty", "frequency_penalty", "user"))
    assert complete(client, **TEXT, extra_body=nulls).choices == complete(client, **TEXT).choices
    names = ("temperature", "max_tokens", "max_completion_tokens", "tools", "response_format", "logprobs", "metadata")
    assert chat(client, **CHAT, extra_body=dict.fromkeys(names)).choices == chat(client, **CHAT).choices


def test_harmless_parameters_change_nothing(client: OpenAI) -> None:
    harmless = {"user": "x", "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "suffix": ""}
    assert complete(client, **TEXT, **harmless).choices == complete(client, **TEXT).choices
    harmless = {"user": "x", "metadata": {"a": "b"}, "store": True, "response_format": {"type": "text"}}
    harmless |= {"tools": [], "tool_choice": "none", "modalities": ["text"], "service_tier": "auto", "seed": 5}
    assert chat(client, **CHAT, **harmless).choices == chat(client, **CHAT).choices


def test_penalties_and_biases_of_a_language_model(client: OpenAI, generator: Generator) -> None:
    greedy = {**TEXT, "temperature": 0, "max_tokens": 9}
    tokens = generator.tokenizer.encode(["p q"])[0]
    [p] = {generator.tokenizer.encode(["p"])[0][0]}
    forced = complete(client, **greedy, logit_bias={str(p): 100}, logprobs=0).choices[0]
    assert forced.text == " p" * 9 and all(x < -1e-9 for x in forced.logprobs.token_logprobs), "the model's own"
    assert "p" not in text_of(client, **greedy, logit_bias={str(token): -100 for token in tokens})
    everything = {str(p): 60}
    for penalty in ("presence_penalty", "frequency_penalty"):
        words = text_of(client, **greedy, logit_bias=everything, **{penalty: 2}).split()
        assert words == ["p"] * 9, "a penalty of 2 is less than a bias of 60"
    plain = text_of(client, **greedy)
    words = text_of(client, **greedy, frequency_penalty=2, logit_bias={"3": -100}).split()
    assert len(words) == 9 and len(set(words)) > len(set(plain.split()))


def test_the_end_of_a_text(client: OpenAI, translator: Translator) -> None:
    """stop cuts where it occurs, max_tokens after so many tokens; both say so."""
    for options in ({**TEXT, "max_tokens": 30}, {**TRANSLATE, "prompt": "a b c! d e f! g h"}):
        full = complete(client, **options).choices[0]
        stop = full.text[5:8]
        for choice in (
            complete(client, **options, stop=stop).choices[0],
            complete(client, **options, stop=["zz", stop]).choices[0],
        ):
            assert (choice.text, choice.finish_reason) == (full.text.split(stop)[0], "stop")
        texts, reasons, _ = streamed(client, **options, stop=stop)
        assert (texts[0], reasons[0]) == (full.text.split(stop)[0], "stop")
        assert complete(client, **options, stop=[]).choices[0] == full
        for n in (1, 3, 4):
            cut = complete(client, **{**options, "max_tokens": n})
            assert full.text.startswith(cut.choices[0].text.rstrip()) and cut.usage.completion_tokens == n
            assert cut.choices[0].finish_reason == "length"
    [translation] = translator.translate(["a b c"])
    n = len(translation.tokens)
    exactly = complete(client, **TRANSLATE, max_tokens=n).choices[0]
    reached_own_limit = n >= translator.max_output_tokens(3, translator.decode_config)
    assert exactly.text == translation.text
    assert exactly.finish_reason == ("length" if reached_own_limit else "stop")


def test_the_finish_reason_of_a_translation_that_the_search_has_cut(client: OpenAI, models: dict[str, Path]) -> None:
    reasons = set()
    for name in ("toy", "loop"):
        translator = library.load(models[name])
        assert isinstance(translator, Translator)
        for prompt in "abcd":
            [translation] = translator.translate([prompt])
            most = translator.max_output_tokens(1, translator.decode_config)
            reason = complete(client, model=name, prompt=prompt).choices[0].finish_reason
            assert reason == ("length" if len(translation.hypotheses[0].ids) >= most else "stop")
            reasons.add(reason)
    assert reasons == {"stop", "length"}


def test_scores_of_tokens(client: OpenAI, translator: Translator, generator: Generator) -> None:
    [sentence] = translator.translate(["a b c"])
    [[scores]] = translator.score_tokens([sentence])
    assert sum(score.log_prob for score in scores) == pytest.approx(sentence.hypotheses[0].log_prob, abs=1e-4)
    choice = complete(client, **TRANSLATE, logprobs=2).choices[0]
    assert choice.logprobs.token_logprobs == pytest.approx([s.log_prob for s in scores[:-1]], abs=1e-4)
    assert "".join(choice.logprobs.tokens) == choice.text
    sampled = complete(client, **TEXT, logprobs=3).choices[0]
    prompt = generator.tokenizer.encode(["a b" + sampled.text])[0]
    expected = [score.log_prob for score in generator.score_tokens(prompt)[2:]]
    assert sampled.logprobs.token_logprobs == pytest.approx(expected, abs=1e-4)
    for one in (choice, sampled):
        assert "".join(one.logprobs.tokens) == one.text
        for offset, token in zip(one.logprobs.text_offset, one.logprobs.tokens, strict=True):
            assert one.text[offset:].startswith(token)
    for token, value, top in zip(
        sampled.logprobs.tokens, sampled.logprobs.token_logprobs, sampled.logprobs.top_logprobs, strict=True
    ):
        assert len(top) == 3 and max(top.values()) >= value - 1e-6 and sum(map(math.exp, top.values())) < 1.0 + 1e-6
        assert top.get(token, value) == pytest.approx(value, abs=1e-5)


def test_streamed_scores_are_those_of_the_whole(client: OpenAI) -> None:
    options = {**TEXT, "n": 2, "logprobs": 2, "max_tokens": 12}
    cut = text_of(client, **{**TEXT, "max_tokens": 12})[7:9]
    for more in ({}, {"stop": cut}, {"echo": True}):
        whole = complete(client, **options, **more)
        _, _, chunks = streamed(client, **options, **more)
        for choice in whole.choices:
            parts = [c.logprobs for chunk in chunks for c in chunk.choices if c.index == choice.index and c.logprobs]
            assert [token for part in parts for token in part.tokens] == choice.logprobs.tokens
            assert [at for part in parts for at in part.text_offset] == choice.logprobs.text_offset
            assert [x for part in parts for x in part.token_logprobs] == choice.logprobs.token_logprobs


def test_echo_starts_with_the_prompt(client: OpenAI, generator: Generator) -> None:
    assert text_of(client, **TEXT, echo=True) == "a b" + text_of(client, **TEXT)
    assert streamed(client, **TEXT, echo=True)[0][0] == "a b" + text_of(client, **TEXT)
    assert text_of(client, **{**TEXT, "stop": "b"}, echo=True).startswith("a b"), "the prompt does not end the text"
    [longer] = complete(client, **TEXT, echo=True, logprobs=0).choices
    assert "".join(longer.logprobs.tokens) == longer.text
    for offset, token in zip(longer.logprobs.text_offset, longer.logprobs.tokens, strict=True):
        assert longer.text[offset:].startswith(token)
    scored = complete(client, **{**TEXT, "prompt": "a b c", "max_tokens": 0}, echo=True, logprobs=1)
    [choice] = scored.choices
    assert choice.text == "a b c" and scored.usage.completion_tokens == 0
    end = generator.score(["a b c"])[0] - sum(choice.logprobs.token_logprobs)
    assert end == pytest.approx(math.log(dict(generator.next("a b c", k=99))["</s>"]), abs=1e-4)


def test_bytes_of_characters_are_named(client: OpenAI) -> None:
    options = {"model": "bytes", "prompt": "a", "max_tokens": 12, "temperature": 2.0, "seed": 1}
    choice = complete(client, **options, logprobs=1).choices[0]
    assert len(choice.logprobs.tokens) == 12 and choice.finish_reason == "length"
    content = (
        chat(client, model="bytes", messages=[{"role": "user", "content": "a"}], max_tokens=12, seed=1, logprobs=True)
        .choices[0]
        .logprobs.content
    )
    assert all(len(token.bytes) == 1 and token.top_logprobs == [] for token in content)


def test_a_chat_with_a_translator_translates_the_last_message_of_the_user(
    client: OpenAI, translator: Translator
) -> None:
    expected = translator.translate(["a b c"])[0].text
    answer = chat(client, **CHAT)
    assert answer.choices[0].message.content == expected and answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    history = [
        {"role": "system", "content": "translate"},
        {"role": "developer", "content": "translate"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "e", "tool_call_id": "1"},
        {"role": "user", "content": [{"type": "text", "text": "a b c"}], "name": "x"},
    ]
    assert chat(client, model="toy", messages=history).choices[0].message.content == expected
    parts = [{"type": "text", "text": "a b!"}, {"type": "text", "text": "c d"}]
    in_parts = chat(client, model="toy", messages=[{"role": "user", "content": parts}])
    assert in_parts.choices[0].message.content == text_of(client, model="toy", prompt="a b!\nc d")


def test_a_chat_with_a_language_model_continues_all_messages(client: OpenAI) -> None:
    messages = [{"role": role, "content": text} for role, text in (("system", "a"), ("user", "b"), ("assistant", "c"))]
    options = {"model": "text", "seed": 1}
    answer = chat(client, messages=messages, max_completion_tokens=5, **options)
    assert answer.choices[0].message.content == text_of(client, prompt="a\nb\nc", max_tokens=5, **options)
    assert answer.usage.prompt_tokens == 3


def test_a_streamed_chat(client: OpenAI) -> None:
    for options in (CHAT, {**CHAT, "model": "text", "seed": 1, "max_tokens": 9, "n": 2}):
        whole = chat(client, **options)
        chunks = list(chat(client, **options, stream=True, stream_options={"include_usage": True}))
        for choice in whole.choices:
            deltas = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
            assert "".join(c.delta.content or "" for c in deltas) == choice.message.content
            assert [c.delta.role for c in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
            assert [c.finish_reason for c in deltas] == [None] * (len(deltas) - 1) + [choice.finish_reason]
        assert chunks[-1].usage == whole.usage and len({chunk.id for chunk in chunks}) == 1


def test_scores_in_a_chat(client: OpenAI) -> None:
    for options in (CHAT, {**CHAT, "model": "text", "seed": 1, "max_tokens": 9}):
        choice = chat(client, **options, logprobs=True, top_logprobs=4).choices[0]
        assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
        for token in choice.logprobs.content:
            assert bytes(token.bytes).decode() == token.token and len(token.top_logprobs) == 4
            assert all(a.logprob >= b.logprob for a, b in pairwise(token.top_logprobs))
        assert chat(client, **options).choices[0].logprobs is None


def test_a_translator_samples_at_a_temperature(client: OpenAI, translator: Translator) -> None:
    searched = text_of(client, **TRANSLATE)
    assert text_of(client, **TRANSLATE, temperature=0, top_p=0.5, seed=2) == searched
    assert text_of(client, **TRANSLATE, top_p=1.0) == searched
    sampled = text_of(client, **TRANSLATE, temperature=1.5, seed=2)
    [expected] = translator.translate(["a b c"], sampling={"temperature": 1.5, "seed": 2})
    assert sampled == expected.text
    assert text_of(client, **TRANSLATE, top_p=0.9, seed=2) == text_of(client, **TRANSLATE, top_p=0.9, seed=2)
    assert len({text_of(client, **TRANSLATE, temperature=2.0, seed=seed) for seed in range(5)}) > 1
    assert len({choice.text for choice in complete(client, **TRANSLATE, temperature=2.0, n=4).choices}) > 1


def test_embeddings(client: OpenAI, translator: Translator, generator: Generator) -> None:
    texts = ["a b c", "d", "e f g h i j"]
    for name, pipeline in (("toy", translator), ("text", generator)):
        together = client.embeddings.create(model=name, input=texts)
        vectors = np.array([row.embedding for row in together.data], dtype=np.float32)
        raw = pipeline.embed(texts)
        expected = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
        assert [row.index for row in together.data] == [0, 1, 2] and together.usage.total_tokens == 10
        for text, vector in zip(texts, vectors, strict=True):
            [alone] = client.embeddings.create(model=name, input=text).data
            np.testing.assert_allclose(alone.embedding, vector, rtol=0, atol=1e-6)
        ids = pipeline.src_tokenizer.encode(texts)
        assert client.embeddings.create(model=name, input=ids).data == together.data
        assert client.embeddings.create(model=name, input=ids[0]).data[0].embedding == pytest.approx(
            together.data[0].embedding, abs=1e-6
        )
    numbers = client.embeddings.create(model="toy", input="a", encoding_format="float", dimensions=16).data[0]
    coded = client.embeddings.create(model="toy", input="a", encoding_format="base64").data[0]
    decoded = np.frombuffer(base64.b64decode(coded.embedding), dtype="<f4")  # type: ignore[arg-type]
    np.testing.assert_allclose(decoded, numbers.embedding, rtol=0, atol=1e-7)


BAD, MISSING, UNKNOWN = openai.BadRequestError, openai.NotFoundError, "unknown_parameter"
INVALID, UNSUPPORTED = "invalid_value", "unsupported_parameter"
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
REFUSED: list[tuple[str, dict[str, Any], type[openai.APIStatusError], str | None, str | None]] = [
    ("completions", {**TEXT, "model": "gpt-4o"}, MISSING, "model", "model_not_found"),
    ("completions", {**TEXT, "model": "Org/Model"}, MISSING, "model", "model_not_found"),
    ("completions", {**TEXT, "model": "captioner"}, BAD, "model", INVALID),
    ("completions", {**TEXT, "temperature": 3}, BAD, "temperature", INVALID),
    ("completions", {**TEXT, "temperature": "warm"}, BAD, "temperature", INVALID),
    ("completions", {**TEXT, "top_p": -0.1}, BAD, "top_p", INVALID),
    ("completions", {**TEXT, "max_tokens": 100_000}, BAD, "max_tokens", INVALID),
    ("completions", {**TEXT, "n": 0}, BAD, "n", INVALID),
    ("completions", {**TEXT, "n": 100}, BAD, "n", INVALID),
    ("completions", {**TEXT, "n": 16, "prompt": ["a"] * 3}, BAD, "n", INVALID),
    ("completions", {**TEXT, "n": 3, "best_of": 2}, BAD, "best_of", INVALID),
    ("completions", {**TEXT, "best_of": 2, "stream": True}, BAD, "best_of", INVALID),
    ("completions", {**TEXT, "logprobs": 6}, BAD, "logprobs", INVALID),
    (
        "completions",
        {**TEXT, "n": 16, "logprobs": 5, "max_tokens": 512, "prompt": ["a", "b"]},
        BAD,
        "logprobs",
        INVALID,
    ),
    ("completions", {**TRANSLATE, "n": 16, "logprobs": 5, "prompt": ["a"] * 2}, BAD, "logprobs", INVALID),
    ("completions", {**TEXT, "logprobs": True}, BAD, "logprobs", INVALID),
    ("completions", {**TEXT, "stop": ["a"] * 5}, BAD, "stop", INVALID),
    ("completions", {**TEXT, "stop": ""}, BAD, "stop", INVALID),
    ("completions", {**TEXT, "suffix": "c"}, BAD, "suffix", UNSUPPORTED),
    ("completions", {**TEXT, "presence_penalty": 2.5}, BAD, "presence_penalty", INVALID),
    ("completions", {**TEXT, "logit_bias": {"a": 1}}, BAD, "logit_bias", INVALID),
    ("completions", {**TEXT, "logit_bias": {"99999": 1}}, BAD, "logit_bias", INVALID),
    ("completions", {**TRANSLATE, "logit_bias": {"7": 1}}, BAD, "logit_bias", INVALID),
    ("completions", {**TRANSLATE, "presence_penalty": 0.5}, BAD, "presence_penalty", INVALID),
    ("chat", {**CHAT, "frequency_penalty": 0.5}, BAD, "frequency_penalty", INVALID),
    ("completions", {**TEXT, "stream_options": {"include_usage": True}}, BAD, "stream_options", INVALID),
    ("completions", {**TEXT, "stream": True, "stream_options": {"wrong": 1}}, BAD, "wrong", UNKNOWN),
    ("completions", {**TEXT, "extra_body": {"top_k": 5}}, BAD, "top_k", UNKNOWN),
    ("completions", {**TEXT, "extra_body": {"<script>": 5}}, BAD, None, UNKNOWN),
    ("completions", {**TEXT, "prompt": [1, -2]}, BAD, "prompt", INVALID),
    ("completions", {**TEXT, "prompt": [7, 99_999]}, BAD, "prompt", INVALID),
    ("completions", {**TEXT, "prompt": [0, 2]}, BAD, "prompt", INVALID),
    ("completions", {**TEXT, "prompt": [7, "a"]}, BAD, "prompt", INVALID),
    ("completions", {**TEXT, "prompt": ["a"] * 33}, BAD, "prompt", INVALID),
    ("completions", {**TEXT, "prompt": "a " * 600}, BAD, None, "context_length_exceeded"),
    ("completions", {**TEXT, "prompt": "a " * 90, "echo": True, "logprobs": 1}, BAD, None, "context_length_exceeded"),
    ("completions", {**TRANSLATE, "prompt": "a! " * 3000, "n": 3}, BAD, None, "context_length_exceeded"),
    ("completions", {**TEXT, "prompt": ["a " * 400] * 30}, BAD, None, "context_length_exceeded"),
    ("embeddings", {"model": "toy", "input": ["a " * 400] * 30}, BAD, None, "context_length_exceeded"),
    ("completions", {**TRANSLATE, "echo": True}, BAD, "echo", INVALID),
    ("completions", {**TRANSLATE, "prompt": "a " * 900}, BAD, None, "context_length_exceeded"),
    ("chat", {"model": "toy", "messages": []}, BAD, "messages", INVALID),
    ("chat", {"model": "toy", "messages": [{"role": "system", "content": "a"}]}, BAD, "messages", INVALID),
    ("chat", {"model": "toy", "messages": [{"role": "user"}]}, BAD, "messages", INVALID),
    ("chat", {"model": "toy", "messages": [{"role": "wizard", "content": "a"}]}, BAD, "messages", INVALID),
    ("chat", {"model": "toy", "messages": [{"role": "user", "content": [IMAGE]}]}, BAD, "messages", UNSUPPORTED),
    ("chat", {"model": "toy", "messages": [{"role": "user", "content": "a", "mood": 1}]}, BAD, "mood", UNKNOWN),
    ("chat", {**CHAT, "tools": [{"type": "function", "function": {"name": "f"}}]}, BAD, "tools", UNSUPPORTED),
    ("chat", {**CHAT, "tool_choice": "required"}, BAD, "tool_choice", UNSUPPORTED),
    ("chat", {**CHAT, "response_format": {"type": "json_object"}}, BAD, "response_format", UNSUPPORTED),
    ("chat", {**CHAT, "modalities": ["text", "audio"]}, BAD, "modalities", UNSUPPORTED),
    ("chat", {**CHAT, "reasoning_effort": "high"}, BAD, "reasoning_effort", UNSUPPORTED),
    ("chat", {**CHAT, "top_logprobs": 2}, BAD, "top_logprobs", INVALID),
    ("chat", {**CHAT, "logprobs": True, "top_logprobs": 21}, BAD, "top_logprobs", INVALID),
    ("chat", {**CHAT, "max_tokens": 2, "max_completion_tokens": 3}, BAD, "max_tokens", INVALID),
    ("embeddings", {"model": "toy", "input": ""}, BAD, "input", INVALID),
    ("embeddings", {"model": "toy", "input": []}, BAD, "input", INVALID),
    ("embeddings", {"model": "toy", "input": [["a"]]}, BAD, "input", INVALID),
    ("embeddings", {"model": "toy", "input": "a", "dimensions": 8}, BAD, "dimensions", INVALID),
    ("embeddings", {"model": "toy", "input": "a", "encoding_format": "int8"}, BAD, "encoding_format", INVALID),
    ("embeddings", {"model": "text", "input": "a " * 80}, BAD, None, "context_length_exceeded"),
    ("embeddings", {"model": "captioner", "input": "a"}, BAD, "model", INVALID),
    ("embeddings", {"model": "one-text", "input": "a"}, BAD, "model", INVALID),
]


@pytest.mark.parametrize(("route", "options", "kind", "param", "code"), REFUSED)
def test_calls_that_are_refused(
    client: OpenAI,
    route: str,
    options: dict[str, Any],
    kind: type[openai.APIStatusError],
    param: str | None,
    code: str | None,
) -> None:
    create: Any = {"chat": client.chat.completions, "completions": client.completions, "embeddings": client.embeddings}
    with pytest.raises(kind) as refused:
        create[route].create(**options)
    error = refused.value
    assert (error.param, error.code, error.type) == (param, code, "invalid_request_error")
    message = error.body["message"]  # type: ignore[index]
    assert message and (param is None or param in message or code == "model_not_found") and "script" not in message


def test_routes_that_this_server_does_not_have(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.models.retrieve("Org/Model")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="toy", input="a")
    assert missing.value.code == "unknown_url"
    with pytest.raises(openai.APIStatusError) as wrong:
        client.models.delete("toy")
    assert (wrong.value.status_code, wrong.value.code) == (405, "method_not_supported")


def test_a_wrong_key_is_an_authentication_error(models: dict[str, Path]) -> None:
    with serving({"toy": models["toy"]}, token="let-me-in") as (address, _):
        right = OpenAI(base_url=f"{address}/v1", api_key="let-me-in", max_retries=0)
        assert right.models.retrieve("toy").id == "toy" and chat(right, **CHAT).choices
        wrong = right.with_options(api_key="guess")
        for call in (lambda: chat(wrong, **CHAT), wrong.models.list, lambda: wrong.models.retrieve("toy")):
            with pytest.raises(openai.AuthenticationError) as refused:
                call()  # type: ignore[no-untyped-call]
            assert refused.value.code == "invalid_api_key"
