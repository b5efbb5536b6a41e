"""Attention as figures, a stand-alone HTML page, and terminal output."""
