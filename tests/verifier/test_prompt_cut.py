"""A provider that reads a part of the prompt and says nothing: its count of tokens tells."""

import json

import pytest

from schemas.reasons import FailureReason as R
from verifier.answer import Reply
from verifier.fault import Action
from verifier.prompt_cut import cut_prompt, least_tokens, prompt_was_cut

PROSE = "The insured reported that water had entered the cellar after the storm of 12 March. "
FIGURES = "Item 4711 | 3 x 12.50 | 37.50 EUR\n"
DOTS = "Total . . . . . . . . . . . . 12.00\n"
ROWS = "name" + " " * 60 + "12\n" + "-" * 70 + "\n"
JAPANESE = "請求書番号は令和七年三月十五日に発行された合計金額四万円であります。"
KOREAN = "대한민국 서울특별시 강남구 세금계산서 공급가액 합계 금액 확인 "


def body(text: str, times: int = 1) -> bytes:
    messages = [{"role": "user", "content": text * times}]
    return json.dumps({"model": "m", "messages": messages}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("text", "times", "tokens", "cut"),
    [
        # A window of 4,096 of which half was kept, of 8,192, and of 2,048.
        (PROSE, 600, 2050, True),
        (PROSE, 2000, 4098, True),
        (PROSE, 300, 1026, True),
        (FIGURES, 800, 4098, True),
        (JAPANESE, 300, 2050, True),
        (KOREAN, 500, 2050, True),
        ("All data: " + PROSE, 600, 2050, True),
        # What these texts take: 15, 19, 25 and 29 tokens or so each time.
        (PROSE, 600, 600 * 16, False),
        (FIGURES, 800, 800 * 19, False),
        (JAPANESE, 300, 300 * 25, False),
        (KOREAN, 500, 500 * 22, False),
        # Tokenizers that are thrifty: a word a token, whole rows of marks in one.
        (PROSE, 600, 600 * 15, False),
        (ROWS, 400, 1700, False),
        (DOTS, 400, 3000, False),
        # No count at all, or one of the part that was not cached.
        (PROSE, 2000, 0, False),
        (PROSE, 2000, 450, False),
        # Too short to be cut by any window.
        (PROSE, 20, 100, False),
    ],
)
def test_a_cut_prompt_is_known_by_its_tokens(text: str, times: int, tokens: int, cut: bool) -> None:
    """Far fewer tokens than the text has words; never for a text that is merely light."""
    assert prompt_was_cut(body(text, times), tokens) is cut


@pytest.mark.parametrize("kind", ["image_url", "plain"])
def test_attachments_take_no_tokens_of_their_bytes(kind: str) -> None:
    """A megabyte of base64 is a few hundred tokens, or however many the provider counts."""
    data = "A1b2C3d4+/" * 100_000
    url = f"data:image/png;base64,{data}" if kind == "image_url" else data
    assert not prompt_was_cut(body(url + '"' + PROSE * 200), 3100)
    assert prompt_was_cut(body(url + ' "' + PROSE * 600), 2050)


def test_escapes_are_no_words() -> None:
    """A line break in JSON is two bytes, and joins no words."""
    assert least_tokens(body("\n\t" * 1000)) < 20
    assert least_tokens(body("a\n" * 1000)) > 1000


@pytest.mark.parametrize(
    ("prompt", "cached", "cut"), [(2050, 0, True), (1200, 8000, False), (9800, 8000, False)]
)
def test_cached_tokens_were_read_too(prompt: int, cached: int, cut: bool) -> None:
    """Whether a provider counts them among the prompt's or beside them."""
    fault = cut_prompt(body(PROSE, 600), Reply("score", "m", prompt, 10, cached))
    assert (fault is not None) is cut


def test_the_fault_of_a_cut_prompt() -> None:
    """It is given up for this record, with the figures and what to do."""
    fault = cut_prompt(body(PROSE, 600), Reply("score", "m", 2050, 10, 0))
    assert fault is not None
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED)
    assert "2050 were read" in fault.detail
    assert "num_ctx" in fault.detail
    assert len(fault.detail) <= 300
