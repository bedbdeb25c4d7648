"""Signs questions between processes of a group, and their answers, so that the token itself is never sent.

In Kafka, any client that may join the group can claim an address, even if it is not a worker.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from functools import lru_cache

SCHEME = "Streamtopo-HMAC-SHA256"
"""The scheme in the Authorization header, which is followed by time, nonce and signature."""
ANSWER_HEADER = "Streamtopo-Signature"
"""The header with the signature of an answer."""
_MAX_CLOCK_DIFFERENCE = 300
"""Seconds that the clocks of two machines may differ."""
_KEY_ROUNDS = 100_000
"""Rounds for deriving the key from the token. Many make a short token harder to guess from a signature."""


class Signatures:
    """Signatures cover the address, the time, and the body; those of answers also cover the question."""

    def __init__(self, token: str) -> None:
        self._token = token

    def sign_question(self, address: str, path: str, body: bytes) -> str:
        """Return the value of the Authorization header."""
        when, nonce = str(int(time.time())), secrets.token_hex(16)
        return f"{SCHEME} {when} {nonce} {self._question_signature(when, nonce, address, path, body)}"

    def verify_question(self, header: str, address: str, path: str, body: bytes) -> bool:
        scheme, *fields = header.split(" ")
        if scheme != SCHEME or len(fields) != 3 or not fields[0].isdecimal() or len(fields[0]) > 12:
            return False
        when, nonce, signature = fields
        matches = hmac.compare_digest(
            signature.encode(), self._question_signature(when, nonce, address, path, body).encode()
        )
        return matches and abs(time.time() - int(when)) <= _MAX_CLOCK_DIFFERENCE

    def sign_answer(self, header: str, body: bytes) -> str:
        """Return the signature of an answer; `header` is that of the question."""
        return self._sign("answer", header, hashlib.sha256(body).hexdigest())

    def verify_answer(self, signature: str, header: str, body: bytes) -> bool:
        return hmac.compare_digest(signature.encode(), self.sign_answer(header, body).encode())

    def _question_signature(self, when: str, nonce: str, address: str, path: str, body: bytes) -> str:
        return self._sign("question", when, nonce, "POST", address, path, hashlib.sha256(body).hexdigest())

    def _sign(self, *parts: str) -> str:
        return hmac.new(_key(self._token), "\n".join(parts).encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _key(token: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", token.encode(), b"streamtopo", _KEY_ROUNDS)
