"""The lectures' computations, step by step: each a value, computed by the library, with text, page and JSON apart."""
