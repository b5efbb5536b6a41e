"""Tags of target languages, and how a direction is chosen."""

import pytest

from regard.errors import UserError
from regard.text.direction import Direction, Directions
from regard.text.language_codes import same_language, three_letter_code, two_letter_code
from regard.text.target_tag import is_tag, split_tag, tag_language, target_tag

SEVERAL = Directions.of([("en", "fr"), ("en", "de"), ("nl", "fr")])


def test_codes_of_two_and_three_letters_belong_together() -> None:
    for code in ("fr", "de", "el", "zh", "nb", "sh"):
        assert len(three_letter_code(code)) == 3 and two_letter_code(three_letter_code(code)) == code
        assert same_language(code, three_letter_code(code).upper())
    for code in ("nds", "zh_Hant", "pt-BR", "upper"):
        assert three_letter_code(code) == two_letter_code(code) == code


def test_a_tag_and_its_language() -> None:
    for code in ("fr", "nds", "zh_Hant", "pt-BR"):
        tag = target_tag(code)
        assert is_tag(tag) and is_tag(f"▁{tag}") and tag_language(tag) == code
        assert split_tag(f" {tag} a text ") == (tag, "a text ")
    for text in ("", "a >>fra<< b", ">> fra<< a", ">>fra< a", "<<fra>>"):
        assert split_tag(text) == ("", text) and not is_tag(text)


def test_tags_are_needed_for_several_targets_only() -> None:
    assert [direction.tag for direction in SEVERAL] == [">>fra<<", ">>deu<<", ">>fra<<"]
    assert SEVERAL.targets == ["fr", "de"] and SEVERAL.several == SEVERAL.all
    many_to_one = Directions.of([("de", "en"), ("fr", "en"), ("de", "en")])
    assert [direction.languages for direction in many_to_one] == [("de", "en"), ("fr", "en")]
    assert not any(direction.tag for direction in many_to_one) and many_to_one.find().source == "de"
    assert Directions.of([("en", "fr")]).several == ()


def test_an_imported_model_with_several_tags_has_several_directions() -> None:
    imported = Directions.from_tags(("en", "roa"), [">>fr<<", ">>spa<<", ">>pt_br<<"])
    assert imported.targets == ["fr", "es", "pt_br"] and imported.find("es").tag == ">>spa<<"
    for tags in ([], [">>fra<<"]):
        assert Directions.from_tags(("en", "fr"), tags) == Directions.of([("en", "fr")])


@pytest.mark.parametrize("to", ["fr", "fra", "FRA", ">>fra<<"])
def test_a_target_can_be_written_in_several_ways(to: str) -> None:
    assert SEVERAL.find(to) == Direction(source="en", target="fr", tag=">>fra<<")
    assert SEVERAL.with_tag("a text", to) == ">>fra<< a text"


def test_a_text_keeps_its_own_tag() -> None:
    assert SEVERAL.read_tag(">>deu<< a text", "fr") == (">>deu<<", "a text")
    assert SEVERAL.read_tag(">>ita<< a text", "fr") == (">>fra<<", ">>ita<< a text"), "not a tag of this model"
    assert SEVERAL.with_tag(">>deu<< a text") == ">>deu<< a text" and SEVERAL.with_tag(" ", "de") == " "
    one = Directions.of([("en", "fr")])
    for text in (">>fra<< a text", " a text"):
        assert one.with_tag(text) == one.with_tag(text, "fr") == one.without_tag(text) == text


def test_a_target_that_is_missing_or_unknown_is_named_with_the_choices() -> None:
    for to in (None, "", "it"):
        with pytest.raises(UserError, match=r"translates to fr, de$"):
            SEVERAL.read_tag("a text", to)
    many = Directions.from_tags(("en", "mul"), [f">>x{i}<<" for i in range(99)])
    with pytest.raises(UserError, match=r"x19 … \(99 languages\)$"):
        many.find()
