"""Tests so long that only STREAMTOPO_LONG=1 runs them, as in the nightly run."""

import os

import pytest

LONG = bool(os.environ.get("STREAMTOPO_LONG"))
long = pytest.mark.skipif(not LONG, reason="takes long; STREAMTOPO_LONG=1 runs it, as in the nightly run")
