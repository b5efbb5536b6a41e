import pytest
import torch

from regard.data.batch import Batch, collate, collate_labels, collate_sources
from regard.text.ragged import Ragged
from regard.text.vocab import BOS, EOS, PAD

CPU, CUDA, META = (torch.device(name) for name in ("cpu", "cuda", "meta"))


def batch(device: torch.device = CPU) -> Batch:
    ids = torch.ones(2, 3, dtype=torch.int64, device=device)
    return Batch(ids, ids, ids)


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices of tensors that were pinned. As with CUDA, only tensors in CPU memory can be."""
    devices: list[str] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu":
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        devices.append(tensor.device.type)
        return tensor

    def to(tensor: torch.Tensor, device: torch.device, non_blocking: bool = False) -> torch.Tensor:
        return tensor if device.type in ("cuda", tensor.device.type) else torch.empty_like(tensor, device=device)

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    return devices


def test_only_cpu_tensors_on_their_way_to_a_gpu_are_pinned(pinned: list[str]) -> None:
    batch().to(CUDA)
    assert pinned == ["cpu"] * 3
    batch(META).to(CUDA)  # stands for a batch that is already on the GPU
    batch().to(CPU)
    assert batch().to(META).src.device == META
    assert len(pinned) == 3


def test_a_batch_can_be_moved_to_any_device() -> None:
    assert batch().to(META).tgt_out.device == META
    here = batch()
    assert here.to(CPU).src is here.src, "nothing is copied where it already is"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_batch_on_the_gpu_stays_there_and_comes_back() -> None:
    there = batch().to(CUDA)
    assert there.to(CUDA).src.data_ptr() == there.src.data_ptr()
    assert torch.equal(there.to(CPU).src, batch().src)


def test_collate_adds_specials_and_pads() -> None:
    src, tgt = [[7, 8], [9]], [[10], [11, 12, 13]]
    collated = collate(Ragged.of(src), Ragged.of(tgt), rows=3)
    assert collated.src.tolist()[0] == [7, 8, EOS, PAD]
    assert collated.src.tolist()[2] == [EOS, *[PAD] * 3], "a filler row"
    assert collated.tgt_in.tolist()[1] == [BOS, 11, 12, 13]
    assert collated.tgt_out.tolist()[1] == [11, 12, 13, EOS]
    assert (collated.tgt_in[2] == PAD).all() and (collated.tgt_out[2] == PAD).all()
    assert Ragged.of(src).lists() == src
    assert collate_sources(src).src.tolist() == [[7, 8, EOS], [9, EOS, PAD]]


def test_labels_are_the_only_target() -> None:
    collated = collate_labels(Ragged.of([[7, 8], [9]]), Ragged.of([[20], [21]]), rows=3)
    assert collated.tgt_in.shape == (3, 0)
    assert collated.tgt_out.tolist() == [[20], [21], [PAD]]
