"""Values of any type as the text of their JSON, which Spark turns into variants: only where a variant is the same."""

from __future__ import annotations

import re
from typing import Any

from streamtopo.serdes import JSON
from streamtopo.serdes.exact_json import dumps_exactly
from streamtopo.serdes.json_types import to_json
from streamtopo.spark.decoding.scalars import Unheld

CHARACTERS = 4 << 20
"""Longer JSON could be too large for a variant, whose limit is 16 MB."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TOO_LARGE = re.compile(r"\d{39}")
"""Spark keeps integers of up to 38 digits, and makes floats of larger ones."""
_ANYTHING = (Any, object, dict, list)


def texts(kind: Any, values: list[Any]) -> list[str]:
    """Raises for a value that JSON cannot restore, such as NaN, or that Spark would change."""
    if kind in _ANYTHING:
        encoded = [one or b"" for one in JSON.encode_column(values)]
    else:
        encoded = [dumps_exactly(value, to_json) for value in values]
    found = list(map(bytes.decode, encoded))
    for text in found:
        if len(text) > CHARACTERS:
            raise Unheld("longer than a variant may be")
        if len(text) > 38 and _TOO_LARGE.search(text) and _TOO_LARGE.search(_STRING.sub("", text)):
            raise Unheld("an integer with more than 38 digits")
    return found
