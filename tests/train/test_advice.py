from regard.train.advice import ValidationPoint, advise


def points(*bleus: float, last_loss: float = 1.0) -> list[ValidationPoint]:
    return [*(ValidationPoint(1.0, bleu) for bleu in bleus[:-1]), ValidationPoint(last_loss, bleus[-1])]


def test_advice_follows_from_the_last_validations() -> None:
    assert "--set train.steps=2000" in advise(points(10, 20, 25, 27, 28), 1000)
    assert "by heart" in advise(points(10, 20, 20.1, 20.2, 20.3, last_loss=1.2), 1000)
    assert "more sentence pairs" in advise(points(10, 20, 20.1, 20.2, 20.3), 1000)
    assert advise(points(10, 20, 30), 1000) == "", "too few validations to tell"
