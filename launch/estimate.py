"""What `score --estimate` prints: calls, tokens, dollars and hours, before anything is sent."""

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from launch.amounts import usd
from launch.flags import flag_names, settings_from
from pipeline.settings import EstimateFlags
from verifier.endpoint import EMBEDDED
from verifier.settings import VerifierSettings

if TYPE_CHECKING:
    from pipeline.estimate import Estimate

WIDTH = 80
_LABEL = 24
_NUMBER = 14
_THINKS = re.compile(r"(?:.*/)?(?:o\d|gpt-5|gemini-2\.5)")
"""Models that think before they answer."""


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Estimate the run that the flags describe, and print it. Raises UsageError."""
    from launch.beam_flags import beam_options
    from pipeline.estimate import estimate_run

    flags = settings_from(EstimateFlags, values)
    beam_options(unknown, flag_names(values.parser))
    sys.stdout.write(describe(estimate_run(flags), flags))
    return 0


def describe(estimate: "Estimate", flags: EstimateFlags) -> str:
    """The estimate for the console, at most WIDTH columns wide."""
    settings = flags.verifier_settings()
    lines = [
        *_wrapped(f"Estimate for {flags.input} with {flags.verifier}. Nothing was sent."),
        "",
        *_amounts(estimate),
        *_dollars(estimate, flags.verifier),
        *_hours(estimate, settings),
        "",
        *_assumptions(estimate, flags),
    ]
    return "\n".join(lines) + "\n"


def _amounts(estimate: "Estimate") -> Iterator[str]:
    read = "" if estimate.exact else f"from a sample of {estimate.read:,} records"
    yield _line("records to verify", _number(estimate.records), read)
    yield _line("dead letters", _number(estimate.dead_letters), "no valid records; no calls")
    yield _line("verifier calls", _number(estimate.calls))
    if estimate.repeated:
        yield _line("  not sent again", _number(estimate.repeated), "equal to another call")
    yield _line("prompt tokens", _number(estimate.prompt_tokens), _each(estimate, "prompt_tokens"))
    yield _line(
        "completion tokens",
        _number(estimate.completion_tokens),
        _each(estimate, "completion_tokens", "assumed"),
    )
    if estimate.attachments:
        yield _line("attachments sent", _number(estimate.attachments), "tokens of each assumed")


def _each(estimate: "Estimate", name: str, more: str = "") -> str:
    of_a_call: float = getattr(estimate, name) / max(1.0, estimate.calls)
    return ", ".join(filter(None, (more, f"{of_a_call:,.0f} a call")))


def _dollars(estimate: "Estimate", target: str) -> Iterator[str]:
    found, cost, batch = estimate.found, estimate.cost_usd, estimate.batch_usd
    if target == EMBEDDED:
        yield _line("cost", "$0", "no LLM is asked")
        return
    if found is None or cost is None:
        yield _line("cost", "unknown", "no price known; --prices FILE")
        return
    prompt, completion = _price(found.price.prompt), _price(found.price.completion)
    yield _line("cost", usd(cost), f"{prompt} and {completion} a million")
    if batch is not None:
        yield _line("  in batch mode", usd(batch), "with export-batch")


def _hours(estimate: "Estimate", settings: VerifierSettings) -> Iterator[str]:
    from pipeline.estimate import hours

    if settings.target == EMBEDDED:
        return
    took = hours(estimate, settings)
    at_once = f"{settings.max_concurrency} at once"
    if settings.verifier_processes > 1:
        at_once += f" in each of {settings.verifier_processes} processes"
    yield _line("time, at least", _time(took.all))
    yield _line("  by concurrency", _time(took.concurrency), at_once)
    if took.requests is not None:
        per_minute = f"{settings.requests_per_minute:,.0f} requests a minute"
        yield _line("  by requests", _time(took.requests), per_minute)
    if took.tokens is not None:
        per_minute = f"{settings.tokens_per_minute:,.0f} tokens a minute"
        yield _line("  by tokens", _time(took.tokens), per_minute)


def _assumptions(estimate: "Estimate", flags: EstimateFlags) -> Iterator[str]:
    text = (
        "Tokens are counted by kinds of characters, without the model's tokenizer. Replies are "
        "assumed to be as long as usual, none to be asked for again, and the provider to cache "
        "nothing. Replies that a cache of yours already holds are not subtracted."
    )
    if flags.verifier != EMBEDDED:
        text = f"{_price_source(estimate)} {text}"
        text += f" An answer is assumed to take {estimate.seconds_a_call:.1f} s."
    if _THINKS.match(estimate.model):
        text += (
            f" {estimate.model} thinks before it answers: that is billed as completion, can be "
            "several times the reply, and is not included."
        )
    yield from _wrapped(text + " See docs/prices.md.")


def _price_source(estimate: "Estimate") -> str:
    if estimate.found is None:
        return f"No price is known for {estimate.model}: name one with --prices FILE."
    table = estimate.found.table
    dated = f" of {table.as_of}" if table.as_of else ""
    return f"Prices are those of {table.source}{dated}, for {estimate.found.key}; prices change."


def _line(label: str, number: str, remark: str = "") -> str:
    return f"{label:<{_LABEL}}{number:>{_NUMBER}}  {remark}".rstrip()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _number(amount: float) -> str:
    return f"{amount:,.0f}"


def _price(price: Decimal) -> str:
    return f"${price:.2f}" if price == round(price, 2) else f"${price.normalize():f}"


def _time(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 1 else f"{hours * 3600:.0f} s"
