import pytest

from regard.data.script import main_script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("a cat sat", "Latin"),
        ("Ein Mädchen läuft über die Straße.", "Latin"),
        ("ＦＵＬＬＷＩＤＴＨ", "Latin"),
        ("Москва — столица", "Cyrillic"),
        ("彼は DVD プレーヤーを買った。", "Han or kana"),
        ("나는 학생입니다", "Hangul"),
        ("ฉันรักแมว", "Thai"),
        ("12:30 €", ""),
        ("猫だ", ""),
        ("abcdежзи", ""),
    ],
)
def test_the_script_of_most_letters(text: str, script: str) -> None:
    assert main_script(text) == script
