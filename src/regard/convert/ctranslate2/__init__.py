"""Export to CTranslate2, and decoding with it."""
