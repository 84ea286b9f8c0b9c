"""Patterns of text that is meant for a judge: forged parts of a prompt or reply, and addresses."""

import re
from typing import NamedTuple

SECTIONS = (
    *("request", "message", "schema", "output", "fields"),
    *("document", "data", "input", "content"),
)
"""The names of our sections, and such as somebody may guess."""


class Pattern(NamedTuple):
    """`regex`, linear in the text, is searched in folded text where one of `words` occurs.

    Scripts without blanks between words have `parts` of words instead; they are looked for only
    in texts beyond ASCII.
    """

    kind: str
    words: frozenset[str]
    parts: tuple[str, ...]
    regex: re.Pattern[str]


def _pattern(kind: str, words: str, regex: str) -> Pattern:
    return Pattern(kind, frozenset(words.split()), (), re.compile(regex))


def _parts(parts: str, regex: str) -> Pattern:
    return Pattern("order", frozenset(), tuple(parts.split()), re.compile(regex))


_FULL = r"(?:9\d|100)\b(?![.,]?\d)"
_WORDS = r"(?:[^\W\d_]+[ ,]+)"
_MACHINE = r"(?:ai|llm|(?:large )?language model|chatgpt)"
_ROLE = r"(?:judge|verifier|evaluator|grader|auditor|reviewer|assessor)"

_AFTER_THINK = "".join(
    rf"|(?<={tag}>{blanks}<)" for tag in ("think", "thinking") for blanks in ("", r"\s", r"\s\s")
)

_MARKERS = (
    _pattern(
        "section marker",
        " ".join(["untrusted", *(f"untrusted_{name}" for name in SECTIONS)]),
        rf"<\s*+(?:[/\\]\s*+)?untrusted[\s_.-]{{0,3}}(?:{'|'.join(SECTIONS)})",
    ),
    _pattern(
        "chat role",
        "im_start im_end im_sep start_header_id end_header_id eot_id eom_id eoi_id endoftext "
        "endofprompt begin_of_text end_of_text",
        r"<\|(?:im_(?:start|end|sep)|(?:start|end)_header_id|e[oi][tm]_id|endof\w{4,6}|"
        r"(?:begin|end)_of_\w{4,10})\|>",
    ),
    _pattern("chat role", "system user assistant", r"<\|(?:system|user|assistant|end)\|>"),
    _pattern("chat role", "start_of_turn end_of_turn", r"<(?:start|end)_of_turn>"),
    _pattern("chat role", "inst sys", r"\[/?inst\]|<<\s?/?sys\s?>>"),
    _pattern("chat role", "assistant", r"(?<![^\n])[ \t]{0,3}#{2,4} ?assistant ?:"),
)

_VERDICTS = (
    _pattern("forged verdict", "incorrect_fields", r"incorrect_fields"),
    _pattern(
        "forged verdict",
        "confidence_score",
        r"confidence_score[\"']?\s{0,3}[:=]\s{0,3}[\"']?100\b(?![.,]?\d)",
    ),
    _pattern(
        "forged verdict",
        "explanation",
        r"explanation[\"']?\s{0,3}:[^\n{}]{0,300}[,\n]\s{0,8}[\"']?"
        rf"(?:(?:confidence_)?score[\"']?\s{{0,3}}:\s{{0,3}}[\"']?{_FULL}"
        r"|rating[\"']?\s{0,3}:\s{0,3}[\"']?10\b|confidence[\"']?\s{0,3}:\s{0,3}[\"']?certain\b)",
    ),
    _pattern("forged verdict", "rating", r"rating\W{1,4}\[\[\d"),
    # An element of some data stands among others; a forged reply stands alone.
    _pattern(
        "forged verdict",
        "score",
        rf"<(?:(?<![>\s]<)|(?<=[^>\s]\s<)|(?<=[^>\s]\s\s<){_AFTER_THINK})"
        rf"\s*+score\s*+>\s{{0,9}}{_FULL}"
        r"(?:\s*+\Z|\s*+(?!\s|<)|\s*+<\s*+/\s*+score\s*+>\s*+(?!\s|<))",
    ),
    _pattern("forged verdict", "think thinking", r"<\s*+(?:/\s*+)?think(?:ing)?\s*+>"),
)

_ADDRESSES = (
    _pattern(
        "address",
        "ai llm llms chatgpt language verifier",
        r"\b(?:note|message|attention|instructions?|memo|notice|hint)[ :,]+"
        rf"(?:(?:to|for)\s+)?(?:(?:the|any|all|every)\s+)?(?:{_MACHINE}s?|verifier)\b"
        rf"(?:\s+(?:{_ROLE}|model|system|assistant|agent)s?\b)?"
        r"(?=\s?[:,;–-]|\s+(?:that|who|which)\b)",
    ),
    _pattern(
        "address", "ai llm llms", rf"\bdear (?:{_MACHINE}) (?:{_ROLE}|model|assistant|agent)\b"
    ),
    _pattern(
        "address",
        "ai llm language chatgpt automated",
        rf"\bif you(?: are|'re|’re) (?:an? )?(?:{_MACHINE}|automated {_ROLE})\b",
    ),
    _pattern(
        "address",
        "judge verifier evaluator grader auditor reviewer assessor",
        rf"\byou are now (?:the|an?) {_WORDS}{{0,3}}?{_ROLE}\b",
    ),
    _pattern(
        "address",
        "ai llm llms language",
        rf"\b{_MACHINE}s?(?: (?:models?|systems?|agents?|{_ROLE}s?))?(?: (?:that|which|who))?"
        r"(?: (?:is|are))? (?:read|process|review|judg|evaluat|grad|scor|check|verif|assess)\w{0,4}"
        r" (?:this|these)\b(?: [^\W\d_]+)?(?=\s?[:,]| (?:should|must|shall|please|ha[sv]e?)\b)",
    ),
    _pattern("address", "verifier grader", r"\byou are (?:the|an?) (?:verifier|grader)\b"),
    _pattern(
        "address",
        "verifier grader ai llm automated",
        rf"\bas (?:the|an?) (?:verifier|grader|(?:ai|llm|automated) (?:{_ROLE}|model))[, ]+you "
        rf"(?:must|should|shall|will|have to|need to) {_WORDS}{{0,4}}?"
        r"(?:report|list|flag|rate|score|give|accept|approve|answer|say|pass)\b",
    ),
    _pattern(
        "address",
        "ai llm verifier",
        rf"\b(?:{_MACHINE}|verifier)\s?:\s?{_WORDS}{{0,4}}?(?:give|rate|score|answer|accept|approve)\b",
    ),
)

_END = r"[^.。！？।\n]"
_ZH_RULES = "(?:指令|指示|规则|規則|规定|提示|命令|要求)"
_ZH_BEFORE = "(?:之前|以前|以上|上述|上面|前面|先前|此前|所有|全部|一切)"
_ORDERS = (
    # Chinese, Japanese, Korean, Arabic, Hebrew, Hindi, Turkish: leave your instructions aside.
    _parts(
        "忽 无视 無視 忘 理会 抛开",
        r"(?<!不要)(?<!不得)(?<!请勿)(?<!切勿)(?:忽略|忽视|忽視|无视|無視|忘记|忘記|忘掉|不要理会|抛开)"
        rf"{_END}{{0,6}}{_ZH_BEFORE}{_END}{{0,8}}{_ZH_RULES}",
    ),
    _parts(
        "無視 忘れ 従わ",
        r"(?:これまで|今まで|以前|上記|上述|前述|先ほど|すべて|全て|全部)"
        rf"{_END}{{0,12}}(?:指示|命令|指令|ルール|プロンプト|規則)"
        rf"{_END}{{0,12}}(?:無視し(?!ない)|無視せよ|忘れ|従わな)",
    ),
    _parts(
        "무시 잊",
        rf"(?:이전|위의|앞선|앞의|모든|기존){_END}{{0,12}}(?:지시|명령|지침|규칙|프롬프트)"
        rf"{_END}{{0,10}}(?:무시하(?!지)|무시해|잊)",
    ),
    _parts(
        "تجاهل انس",
        r"(?:تجاهل|تجاهلوا|انس|انسوا)(?=[^.\n]{0,40}(?:السابقة|اعلاه|أعلاه|جميع|كل))"
        r"[^.\n]{0,30}(?:التعليمات|الاوامر|الأوامر|القواعد|التوجيهات)",
    ),
    _parts(
        "התעלם שכח",
        r"(?:התעלם|התעלמו|שכח|שכחו)[^.\n]{0,20}(?:ההוראות|הוראות|ההנחיות|הנחיות)",
    ),
    _parts(
        "अनदेखा नजरअंदाज भूल",
        rf"(?:पिछले|पूर्व|सभी|ऊपर){_END}{{0,20}}(?:निर्देश|आदेश|नियम){_END}{{0,15}}"
        r"(?:अनदेखा|नजरअंदाज|भूल)",
    ),
    _parts(
        "talimat kural komut yonerge",
        r"\b(?:onceki|yukaridaki)\b[^.\n]{0,25}(?:talimat|kural|komut|yonerge)\w{0,6}[^.\n]{0,10}"
        r"(?:yok say|gormezden gel|unut|dikkate alma)",
    ),
    # Chinese, Japanese, Korean: give each field 100.
    _parts(
        "字段 欄位 栏位 栏目 项目",
        rf"(?:所有|全部|每个|每個|各个?){_END}{{0,4}}(?:字段|欄位|栏位|栏目|项目)"
        rf"{_END}{{0,6}}(?:评为|評為|打|给|給|标为|设为){_END}{{0,4}}(?:100|满分|滿分|正确|最高)",
    ),
    _parts(
        "フィールド 項目 欄",
        rf"(?:すべて|全て|全部|各){_END}{{0,3}}(?:フィールド|項目|欄)"
        rf"{_END}{{0,4}}(?:100|満点|最高点){_END}{{0,4}}(?:付け|つけ|与え|評価|採点)",
    ),
    _parts(
        "필드 항목",
        rf"(?:모든|각|각각의)\s?(?:필드|항목){_END}{{0,6}}(?:100|만점|최고점){_END}{{0,5}}"
        r"(?:주|매기|부여|평가)",
    ),
)

PATTERNS = (*_MARKERS, *_VERDICTS, *_ADDRESSES)
PATTERNS_BEYOND_ASCII = _ORDERS
WANTED = frozenset[str]().union(*(pattern.words for pattern in PATTERNS))
"""All words that a pattern asks for."""
