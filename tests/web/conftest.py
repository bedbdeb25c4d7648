"""The log and the options of the tests of hosting."""

from __future__ import annotations

from tests.hosting.conftest import log as log
from tests.hosting.conftest import options as options
from tests.hosting.conftest import url as url
