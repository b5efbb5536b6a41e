"""Tests of `regard.documents`."""
