import pytest

from regard.text.units import count_units, lacks_spaces, length_unit, unit_spans


@pytest.mark.parametrize(
    "text, units",
    [
        ("the green witch", "the|green|witch"),
        ("iPhoneを買った", "iPhone|を|買|っ|た"),
        ("私は学生です。 彼は先生です。", "私|は|学|生|で|す|。|彼|は|先|生|で|す|。"),
        ("我在2020年买了", "我|在|2020|年|买|了"),
        ("รักภาษาไทย", "รั|ก|ภ|า|ษ|า|ไ|ท|ย"),  # a vowel sign belongs to the letter before it
        ("私 は 学生 です 。", "私|は|学生|です|。"),  # somebody has separated the words
        ("He said こんにちは to me", "He|said|こんにちは|to|me"),
        ("대한민국 사람", "대한민국|사람"),  # Korean has spaces
        ("", ""),
    ],
)
def test_units_are_words_or_characters_of_scripts_without_spaces(text: str, units: str) -> None:
    assert "|".join(text[start:end] for start, end in unit_spans(text)) == units


def test_a_corpus_has_the_unit_of_most_of_its_texts() -> None:
    assert length_unit(["猫がいる。", "犬もいる。", "OK"]) == "characters"
    assert length_unit(["a cat", "猫がいる。"]) == "words" and length_unit([]) == "words"
    assert count_units("a cat 猫", "words") == 3 and count_units("a cat 猫", "characters") == 5
    assert lacks_spaces("猫がいる。") and not lacks_spaces("a cat")
