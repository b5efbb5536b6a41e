import time
from collections import Counter
from pathlib import Path

import pytest

from regard.data.builtin import lexicon as lex
from regard.data.builtin.stories import N_ACTIONS, N_SENTENCES, Story, generate_stories
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError
from tests.cli.command import regard

SIZES = {"train": 3000, "valid": 200, "test": 300}
PAST = {verb.past for verb in lex.VERBS.values()}
CIRCUMSTANCES = {"in", "on", "under", "near", "with", "here", "today", "yesterday"}


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Story]]:
    return generate_stories(SIZES, seed=1)


def sentences(text: str) -> list[tuple[str, list[str]]]:
    """Return the subject of each sentence, which is everything before the verb, and its words from the verb on."""
    assert text.endswith(" .")
    parsed = []
    for sentence in text.removesuffix(" .").split(" . "):
        words = sentence.split()
        [verb] = [i for i, word in enumerate(words) if word in PAST]
        parsed.append((" ".join(words[:verb]), words[verb:]))
    return parsed


def summary_of(text: str) -> str:
    """Compute the summary from the text alone."""
    subjects = Counter(subject for subject, _ in sentences(text))
    [protagonist] = [subject for subject, count in subjects.items() if count > 1]
    actions = []
    for subject, words in sentences(text):
        if subject == protagonist:
            end = next((i for i, word in enumerate(words) if word in CIRCUMSTANCES), len(words))
            actions.append(" ".join(words[:end]))
    return f"{protagonist} {' , '.join(actions[:-1])} and {actions[-1]} ."


def test_the_summary_of_an_example() -> None:
    text = "the king slept . the cat came here . the cat gave an egg to my cow today . the cat left with a dog ."
    assert summary_of(text) == "the cat came , gave an egg to my cow and left ."


def test_the_summary_follows_from_the_text_alone(splits: dict[str, list[Story]]) -> None:
    all_stories = [story for split in splits.values() for story in split]
    assert [story.summary for story in all_stories] == [summary_of(story.text) for story in all_stories]


def test_texts_have_all_lengths_and_the_protagonist_may_be_anywhere(splits: dict[str, list[Story]]) -> None:
    counts, places = Counter[tuple[int, int]](), Counter[int]()
    for story in splits["train"]:
        subjects = [subject for subject, _ in sentences(story.text)]
        protagonist, n_actions = Counter(subjects).most_common(1)[0]
        assert len(set(subjects)) == len(subjects) - n_actions + 1
        counts[len(subjects), n_actions] += 1
        places.update(i for i, subject in enumerate(subjects) if subject == protagonist)
    assert set(counts) == {(n, n_actions) for n in N_SENTENCES for n_actions in N_ACTIONS if n_actions < n}
    assert len(places) == max(N_SENTENCES)
    assert max(len(story.text.split()) for story in splits["train"]) < 120


def test_summaries_are_shorter_than_texts_and_repeat_no_three_words(splits: dict[str, list[Story]]) -> None:
    lengths = [0, 0]
    for story in splits["train"]:
        words = story.summary.split()
        trigrams = list(zip(words, words[1:], words[2:], strict=False))
        assert len(set(trigrams)) == len(trigrams)
        assert len(words) < len(story.text.split())
        lengths = [lengths[0] + len(words), lengths[1] + len(story.text.split())]
    assert lengths[0] < 0.6 * lengths[1]


def test_splits_share_neither_texts_nor_summaries(splits: dict[str, list[Story]]) -> None:
    assert {split: len(stories) for split, stories in splits.items()} == SIZES
    for side in ("text", "summary"):
        used = [{getattr(story, side) for story in stories} for stories in splits.values()]
        assert not used[0] & used[1] and not used[0] & used[2] and not used[1] & used[2]


def test_the_seed_determines_the_stories(splits: dict[str, list[Story]]) -> None:
    assert generate_stories(SIZES, seed=1) == splits
    assert generate_stories(SIZES, seed=2)["test"] != splits["test"]


def test_ten_thousand_stories_take_less_than_ten_seconds() -> None:
    start = time.process_time()
    generate_stories({"train": 10_000})
    assert time.process_time() - start < 10


@pytest.mark.parametrize("sizes", [{}, {"train": 5, "valid": 0}])
def test_an_empty_split_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UserError, match="at least 1 story"):
        generate_stories(sizes)


def test_the_files_contain_the_stories(tmp_path: Path) -> None:
    done = regard("data", "stories", tmp_path / "s", "--size", 50, "--seed", 4)
    assert done.returncode == 0, done.stderr
    for split, stories in generate_stories({"train": 50, "valid": 5, "test": 5}, seed=4).items():
        files = (tmp_path / "s" / f"{split}.text", tmp_path / "s" / f"{split}.summary")
        assert all(str(file) in done.stdout for file in files)
        assert list(Corpus(files).read()) == [(story.text, story.summary) for story in stories]
