"""Why a case is skipped: an operator that streamtopo does not have yet."""

from __future__ import annotations


class Unsupported(Exception):
    def __init__(self, operator: str) -> None:
        super().__init__(f"needs {operator}: comes with the DSL issue")
        self.operator = operator
