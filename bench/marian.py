"""The model that we compare with: MarianMT of Hugging Face transformers, with the size of ours."""

from typing import Any

import torch

from regard.text.vocab import BOS, EOS, PAD


def marian_model(vocab: int, width: int, layers: int, device: torch.device) -> Any:
    """Return a MarianMTModel with random weights."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        dropout=0.1,
        activation_function="gelu",
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    torch.manual_seed(1)
    return MarianMTModel(config).to(device)
