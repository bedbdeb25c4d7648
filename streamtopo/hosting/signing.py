"""Questions between processes of a group are signed, and so are the answers: the token itself is never sent.

In Kafka any client that may join the group can claim an address, without being a worker.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from functools import lru_cache

SCHEME = "Streamtopo-HMAC-SHA256"
"""In the header Authorization, followed by time, nonce and signature."""
ANSWER = "Streamtopo-Signature"
"""The header of a signed answer."""
_VALID = 300
"""Seconds that the clocks of two machines may differ, for a question to be answered."""
_ROUNDS = 100_000
"""Rounds of deriving the key from the token: they make a short token harder to guess from a signature."""


class Signatures:
    """Signed are: who is asked, when, what, and for an answer also which question it is for."""

    def __init__(self, token: str) -> None:
        self._token = token

    def of_question(self, address: str, path: str, body: bytes) -> str:
        """The header Authorization."""
        when, nonce = str(int(time.time())), secrets.token_hex(16)
        return f"{SCHEME} {when} {nonce} {self._question(when, nonce, address, path, body)}"

    def is_of_question(self, header: str, address: str, path: str, body: bytes) -> bool:
        scheme, *given = header.split(" ")
        if scheme != SCHEME or len(given) != 3 or not given[0].isdecimal() or len(given[0]) > 12:
            return False
        when, nonce, signature = given
        right = hmac.compare_digest(signature.encode(), self._question(when, nonce, address, path, body).encode())
        return right and abs(time.time() - int(when)) <= _VALID

    def of_answer(self, header: str, body: bytes) -> str:
        """`header` is the question's."""
        return self._signed("answer", header, hashlib.sha256(body).hexdigest())

    def is_of_answer(self, signature: str, header: str, body: bytes) -> bool:
        return hmac.compare_digest(signature.encode(), self.of_answer(header, body).encode())

    def _question(self, when: str, nonce: str, address: str, path: str, body: bytes) -> str:
        return self._signed("question", when, nonce, "POST", address, path, hashlib.sha256(body).hexdigest())

    def _signed(self, *parts: str) -> str:
        return hmac.new(_key(self._token), "\n".join(parts).encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _key(token: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", token.encode(), b"streamtopo", _ROUNDS)
