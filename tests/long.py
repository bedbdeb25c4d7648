"""Tests that take so long that only STREAMTOPO_LONG=1 runs them, as is done by night."""

import os

import pytest

LONG = bool(os.environ.get("STREAMTOPO_LONG"))
long = pytest.mark.skipif(not LONG, reason="takes long; STREAMTOPO_LONG=1 runs it, as is done by night")
