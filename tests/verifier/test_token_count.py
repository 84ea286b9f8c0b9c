"""Tokens without a tokenizer: close to what a large vocabulary makes of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.token_count import about_tokens

# Counted with the o200k vocabulary (the npm package gpt-tokenizer).
COUNTED = [
    (
        30,
        "The invoice was issued on the fifteenth of March. The total amount due is forty thousand dollars, including sales tax. Please pay within thirty days.",
    ),
    (
        32,
        "Die Rechnung Nummer 4512 wurde am fünfzehnten März ausgestellt. Der Gesamtbetrag beläuft sich auf vierzigtausend Euro einschließlich Umsatzsteuer.",
    ),
    (
        40,
        "Счёт номер 4512 от пятнадцатого марта. Поставщик: общество с ограниченной ответственностью, город Москва. Итого к оплате сорок тысяч рублей.",
    ),
    (
        33,
        "صدرت الفاتورة رقم 4512 بتاريخ الخامس عشر من مارس. المبلغ الإجمالي المستحق أربعون ألف ريال شاملا ضريبة القيمة المضافة.",
    ),
    (27, "चालान संख्या 4512 पंद्रह मार्च को जारी की गई। कुल देय राशि चालीस हजार रुपये है।"),
    (
        36,
        "请求书编号为二零二四年三月十五日开具，合计金额四万元整。供应商地址：浦东新区世纪大道一百号。",
    ),
    (
        39,
        "請求書番号は２０２４です。お支払い期限は令和七年三月末日となっております。合計金額は四万二千円です。",
    ),
    (
        35,
        "세금계산서 번호는 2024-001입니다. 공급가액 합계는 사백만 원이며 부가가치세는 별도입니다.",
    ),
    (
        59,
        '{"vendor":{"name":"ACME Ltd","vat":"DE123456789"},"lines":[{"sku":"A-1","qty":3,"price":12.50},{"sku":"B-22","qty":1,"price":199.99}],"total":237.49}',
    ),
    (
        40,
        "| Item | Qty | Price |\n|------|-----|-------|\n| Bolt M8x40 | 100 | 0.12 |\n| Washer | 250 | 0.03 |\n",
    ),
    (
        41,
        "TOTAL          12.40\nCASH           20.00\nCHANGE          7.60\n**** THANK YOU ****\nREF 0012-8837-22 AUTH 553201\n",
    ),
]


@pytest.mark.parametrize(("tokens", "text"), COUNTED)
def test_counts_are_close(tokens: int, text: str) -> None:
    """Within 20 %, in any script, for prose, JSON, tables and figures."""
    assert about_tokens(text) == pytest.approx(tokens, rel=0.2)


@given(st.text(st.characters(codec=None)), st.text())
def test_texts_add_up(first: str, second: str) -> None:
    """Any text has a count, lone surrogates included; a text's is that of its parts."""
    seam = about_tokens("x")
    whole = about_tokens(f"{first}x{second}")
    assert whole >= 0
    assert whole + seam == pytest.approx(about_tokens(f"{first}x") + about_tokens(f"x{second}"))
