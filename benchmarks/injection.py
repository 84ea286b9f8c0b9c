"""How many attacks on a judge are recognised, how many ordinary texts are mistaken for one, at what cost.

  python benchmarks/injection.py [FILE.parquet ...]

Prints both by kind, for the texts that the patterns were tuned on and for those they were not; exits
with 1 when fewer attacks are recognised, or more false alarms raised, than docs/injection.md states.
Of each Parquet file it counts the rows in which any text is found to be one: false alarms, where you
know that nobody attacks.
"""

import argparse
import re
import sys
import timeit
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STATED = ROOT / "docs" / "injection.md"
ORDINARY = "ordinary texts"
_ROW = re.compile(r"\| ([^|]+?) +\| (\d+)/(\d+) +\| (\d+)/(\d+) +\|")

sys.path.insert(0, str(ROOT))


class Count(NamedTuple):
    """How many of some texts were found to be attacks."""

    found: int
    of: int


Rates = dict[str, tuple[Count, Count]]
"""By kind: of the texts that were tuned on, and of those held out."""


def measure() -> Rates:
    """The rates of today."""
    from tests.scoring.injection_texts import ATTACKS, HARMLESS

    return {
        kind: (count(texts.tuned), count(texts.held_out))
        for kind, texts in {**ATTACKS, ORDINARY: HARMLESS}.items()
    }


def count(texts: Iterable[str]) -> Count:
    """How many of `texts` are found to be attacks."""
    from scoring.injection import findings

    found = [any(True for _ in findings(text)) for text in texts]
    return Count(sum(found), len(found))


def stated(path: Path) -> Rates:
    """The rates that a document's table states."""
    rows = [m.groups() for m in map(_ROW.match, path.read_text("utf-8").splitlines()) if m]
    return {
        kind: (Count(int(a), int(b)), Count(int(c), int(d)))
        for kind, a, b, c, d in rows
        if kind != "all attacks"
    }


def shortfalls(rates: Rates, promised: Rates) -> Iterator[str]:
    """Where the rates are worse than promised, or nothing is promised."""
    for kind in sorted(rates.keys() ^ promised.keys()):
        yield f"{kind}: in the texts or in the document alone"
    for kind in rates.keys() & promised.keys():
        for part, now, then in zip(("tuned", "held out"), rates[kind], promised[kind], strict=True):
            worse = now.found > then.found if kind == ORDINARY else now.found < then.found
            if worse or now.of != then.of:
                yield f"{kind}, {part}: {now.found}/{now.of}, stated {then.found}/{then.of}"


def report(rates: Rates) -> None:
    """The table, as the document has it."""
    print(f"| {'kind':<26} | tuned   | held out |\n|{'-' * 28}|---------|----------|")
    attacks = [pair for kind, pair in rates.items() if kind != ORDINARY]
    total = tuple(
        Count(sum(p[i].found for p in attacks), sum(p[i].of for p in attacks)) for i in (0, 1)
    )
    for kind, (tuned, held_out) in [
        *((k, r) for k, r in rates.items() if k != ORDINARY),
        ("all attacks", total),
        (ORDINARY, rates[ORDINARY]),
    ]:
        shown = [f"{c.found}/{c.of}" for c in (tuned, held_out)]
        print(f"| {kind:<26} | {shown[0]:<7} | {shown[1]:<8} |")


def cost() -> None:
    """Microseconds for texts in which nothing is found, the best of seven."""
    from scoring.injection import findings

    line = (
        "2 boxes of A4 paper at 14.50 each, to the back door of Harbour Street 14, before noon.\n"
    )
    for name, text in (
        ("ASCII", line),
        ("HTML", f"<tr><td class='r'>{line}</td></tr>"),
        ("accents", line.replace("e", "é")),
        ("Chinese", "二箱纸，每箱十四元五角，送至港口街十四号后门，中午之前。\n"),
    ):
        for length in (600, 200_000):
            document = (text * (length // len(text) + 1))[:length]
            runs = max(1, 600_000 // length)
            best = min(
                timeit.repeat(
                    "list(findings(document))",
                    globals={"findings": findings, "document": document},
                    number=runs,
                    repeat=7,
                )
            )
            print(f"{name}, {length} characters: {best / runs * 1e6:.0f} µs")


def texts_of(value: Any) -> Iterator[str]:
    """All texts in a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


def corpus(path: str) -> None:
    """The rows of a Parquet file in which something is found, and what."""
    import pyarrow.parquet as pq

    from scoring.injection import findings

    rows = pq.read_table(path).to_pylist()
    found = [[f for text in texts_of(row) for f in findings(text)] for row in rows]
    print(f"{path}: {sum(map(bool, found))} of {len(rows)} rows")
    for number, first in [(n, f[0]) for n, f in enumerate(found) if f][:20]:
        print(f"  row {number}, {first.kind}: {ascii(first.text)[:100]}")


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", metavar="FILE.parquet")
    parser.add_argument("--stated", type=Path, default=STATED, help="the document to compare with")
    arguments = parser.parse_args()
    rates = measure()
    report(rates)
    cost()
    for path in arguments.files:
        corpus(path)
    problems = list(shortfalls(rates, stated(arguments.stated)))
    print(*problems or [f"as {arguments.stated.name} states, or better"], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
