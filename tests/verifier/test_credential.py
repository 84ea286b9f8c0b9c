"""The key of an endpoint over time: read once, renewed when due, read again after a refusal."""

import asyncio
import threading

import pytest

from schemas.errors import UsageError
from verifier.credential import PAUSE_S, Credential
from verifier.key_source import KeySource, variable
from verifier.key_value import KeyUnavailableError, KeyValue, read_key

SOURCE = variable("ANY_KEY")


class Clock:
    """Seconds, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Reads:
    """Keys, or errors, one after the other; the last for ever."""

    def __init__(self, *outcomes: KeyValue | Exception) -> None:
        self.outcomes = list(outcomes)
        self.count = 0
        self.threads: set[str] = set()

    def __call__(self, _source: KeySource) -> KeyValue:
        self.threads.add(threading.current_thread().name)
        outcome = self.outcomes[min(self.count, len(self.outcomes) - 1)]
        self.count += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def token(text: str) -> KeyValue:
    return KeyValue(text, renew_s=100, valid_s=200)


def made(*outcomes: KeyValue | Exception) -> tuple[Credential, Reads, Clock]:
    reads, clock = Reads(*outcomes), Clock()
    credential = Credential(SOURCE, reads, clock)
    credential.load()
    return credential, reads, clock


async def settled(reads: Reads, count: int) -> None:
    for _ in range(500):
        if reads.count >= count:
            break
        await asyncio.sleep(0.01)
    assert reads.count == count
    await asyncio.sleep(0.05)


def test_a_key_without_an_end_is_read_once() -> None:
    """However many stages load it, and however long the run."""

    async def check() -> None:
        credential, reads, clock = made(KeyValue("k"))
        credential.load()
        clock.now += 1e9
        assert [await credential.value() for _ in range(3)] == ["k"] * 3
        assert reads.count == 1

    asyncio.run(check())


def test_no_key_is_none() -> None:
    """Nothing is read, and nothing is there to be renewed."""

    async def check() -> None:
        credential = Credential(None)
        credential.load()
        credential.expire()
        assert await credential.value() is None
        assert not await credential.renewed(None)

    asyncio.run(check())


def test_a_token_that_is_due_is_used_while_the_next_is_fetched() -> None:
    """On another thread than the loop's, once for all who ask."""

    async def check() -> None:
        credential, reads, clock = made(token("a"), token("b"))
        clock.now += 100
        assert [await credential.value() for _ in range(5)] == ["a"] * 5
        await settled(reads, 2)
        assert await credential.value() == "b"
        assert reads.threads == {threading.current_thread().name, "construct-beam-key"}
        assert set(credential.secrets) == {"a", "b"}

    asyncio.run(check())


def test_a_token_past_its_end_is_waited_for() -> None:
    """By all requests together, and one that is cut off leaves the others their token."""

    async def check() -> None:
        credential, reads, clock = made(token("a"), token("b"))
        clock.now += 200
        waiting = [asyncio.ensure_future(credential.value()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        assert await asyncio.gather(*waiting[1:]) == ["b", "b"]
        assert reads.count == 2

    asyncio.run(check())


def test_a_token_is_used_on_while_no_other_can_be_had(caplog: pytest.LogCaptureFixture) -> None:
    """A warning, another try after a pause; past its end the request fails for now."""

    async def check() -> None:
        down = KeyUnavailableError("down")
        credential, reads, clock = made(token("a"), down, down, down, token("b"))
        clock.now += 100
        assert await credential.value() == "a"
        await settled(reads, 2)
        assert await credential.value() == "a"
        await settled(reads, 2)
        clock.now += PAUSE_S
        assert await credential.value() == "a"
        await settled(reads, 3)
        clock.now += 100
        with pytest.raises(KeyUnavailableError, match="down"):
            await credential.value()
        assert await credential.value() == "b"

    asyncio.run(check())
    assert "cannot be read again: down" in caplog.text


@pytest.mark.parametrize(
    ("later", "reads_expected", "another"),
    [(PAUSE_S, 2, True), (PAUSE_S / 2, 1, False)],
)
def test_a_refused_key_is_read_again(later: float, reads_expected: int, another: bool) -> None:
    """Unless it was read just now: then it is wrong, not old."""

    async def check() -> None:
        credential, reads, clock = made(KeyValue("a"), KeyValue("b"))
        clock.now += later
        got = await asyncio.gather(*(credential.renewed("a") for _ in range(4)))
        assert got == [another] * 4
        assert reads.count == reads_expected

    asyncio.run(check())


def test_a_key_that_is_gone_is_told_from_one_that_may_come() -> None:
    """A secret that was deleted, a variable that was unset."""

    async def check() -> None:
        credential, _, clock = made(KeyValue("a"), UsageError("no such secret"))
        clock.now += PAUSE_S
        with pytest.raises(UsageError, match="no such secret"):
            await credential.renewed("a")

    asyncio.run(check())


def test_an_expired_key_is_read_before_the_next_request() -> None:
    """What a probe of a latched endpoint asks for."""

    async def check() -> None:
        credential, _, _ = made(KeyValue("a"), KeyValue("b"))
        credential.expire()
        assert await credential.value() == "b"

    asyncio.run(check())


def test_a_key_is_not_in_a_repr() -> None:
    """Nor in a traceback that shows one."""
    assert "marker" not in repr(KeyValue("marker"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "variable ANY_KEY is not set"),
        (" ", "is not set"),
        ("sk-marker\nx", "ANY_KEY holds a line break"),
        ("sk-marker\x00", "ANY_KEY holds"),
        ("sk-marker\N{EM DASH}x", "ANY_KEY holds"),
    ],
)
def test_variables_that_hold_no_key(
    value: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before anything is sent, without repeating it."""
    environ = {} if value is None else {"ANY_KEY": value}
    monkeypatch.setattr("verifier.key_value.os.environ", environ)
    with pytest.raises(UsageError, match=message) as error:
        read_key(SOURCE)
    assert "marker" not in str(error.value)
    environ["ANY_KEY"] = " sk-marker \n"
    assert read_key(SOURCE).text == "sk-marker"
