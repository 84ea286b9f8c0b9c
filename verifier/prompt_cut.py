"""Whether a provider judged only a part of a prompt, as its count of tokens gives away. Pure.

Ollama with a small context, and some gateways, cut a prompt that is too long, answer HTTP 200 and
report the tokens of what was left. What such a model says of a record is no answer.
"""

import re

from schemas.reasons import FailureReason
from verifier.answer import Reply
from verifier.fault import Action, Fault

MIN_TOKENS = 1000
"""Fewer tokens than any window holds are no count of a whole prompt, but of its uncached part."""

SHARE = 0.75
"""Of the tokens that a text needs at the least, for tokenizers with words of more than a word."""

_BYTES_PER_TOKEN = 6
_CHARACTERS_PER_TOKEN = 3
_ESCAPED = re.compile(rb"\\[nrtbf]")
_ENDLESS = re.compile(rb"[!#-~]{200,}")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]+|[0-9]+")
_NOT_WIDE = bytes(byte for byte in range(256) if not 0xE3 <= byte <= 0xED)
"""All but the first bytes of UTF-8 for Chinese, Japanese and Korean characters."""


def cut_prompt(body: bytes, reply: Reply) -> Fault | None:
    """The fault of a reply to a part of the request `body` (JSON), None if it read the whole.

    A provider that counts nothing, or nothing but the uncached part, is believed.
    """
    if not prompt_was_cut(body, reply.prompt_tokens + reply.cached_tokens):
        return None
    detail = (
        f"the prompt was cut: it needs {least_tokens(body)} tokens or more, and "
        f"{reply.prompt_tokens} were read; raise the server's context "
        "(Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or ask a model with a larger one"
    )
    return Fault(
        Action.GIVE_UP,
        FailureReason.CONTEXT_LENGTH_EXCEEDED,
        detail,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
    )


def prompt_was_cut(body: bytes, tokens: int) -> bool:
    """Whether `tokens`, all that a provider counted of a prompt, are too few for its text."""
    if tokens < MIN_TOKENS or tokens * _BYTES_PER_TOKEN >= len(body):
        return False
    return tokens < SHARE * least_tokens(body)


def least_tokens(body: bytes) -> int:
    """A number of tokens that a text needs at the least.

    Each word and each number takes one, and three Chinese characters do. Attachments and other
    endless words are left out.
    """
    text = _ENDLESS.sub(b" ", _ESCAPED.sub(b" ", body))
    wide = len(text.translate(None, _NOT_WIDE))
    return max(len(_WORD.findall(text)), wide // _CHARACTERS_PER_TOKEN)
