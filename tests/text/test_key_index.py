import numpy as np

from regard.text.key_index import KeyIndex, random_bits


def test_keys_are_numbered_in_the_order_of_their_arrival() -> None:
    generator = np.random.default_rng(1)
    keys = np.unique(generator.integers(1 << 64, size=20_000, dtype=np.uint64))
    keys[:100] = np.arange(100)  # also keys that differ little
    generator.shuffle(keys)
    index = KeyIndex()
    for part in np.split(keys, [1, 50, 51, 4_000, 4_100]):
        index.add(part)
        known = len(index)
        numbers = index.find(keys)
        assert (numbers[:known] == np.arange(known)).all() and (numbers[known:] == -1).all()
    assert (index.find(keys[[5, 5, 3]]) == [5, 5, 3]).all()


def test_keys_of_the_same_slot_are_told_apart() -> None:
    first = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))  # its slot is 0, as that of its small multiples
    index, keys = KeyIndex(), first * np.arange(1, 30, dtype=np.uint64)
    index.add(keys[:20])
    assert (index.find(keys) == [*range(20), *[-1] * 9]).all()


def test_random_bits_are_uniform() -> None:
    bits = random_bits(np.arange(64_000))
    assert len(np.unique(bits)) == len(bits)
    for shift in range(64):
        ones = int(((bits >> np.uint64(shift)) & np.uint64(1)).sum())
        assert abs(ones - 32_000) < 5 * 127, "5 standard deviations"
