import numpy as np
import pytest

from regard.evaluate.correlation import Correlation


def test_correlations_of_known_data() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert Correlation.of(x, 2 * x + 1) == Correlation(pytest.approx(1.0), pytest.approx(1.0))
    curved = Correlation.of(x, -np.exp(x))
    assert curved.spearman == pytest.approx(-1.0) and curved.pearson is not None and -1.0 < curved.pearson < -0.8
    assert Correlation.of(x, np.ones(4)) == Correlation(None, None)
    assert "undefined" in Correlation(None, 0.5).to_text()
    y = np.array([3.0, 1.0, 1.0, 5.0])
    assert Correlation.of(x, y).pearson == pytest.approx(np.corrcoef(x, y)[0, 1])
    ranks = np.array([3.0, 1.5, 1.5, 4.0])  # equal values share their mean rank
    assert Correlation.of(x, y).spearman == pytest.approx(np.corrcoef(x, ranks)[0, 1])
