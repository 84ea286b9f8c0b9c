"""Identical requests in flight: one is sent, all get its outcome."""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.verifier.cache.support import entry, key
from verifier.cache.entry import Entry
from verifier.cache.flights import Flights


@dataclass(eq=False)
class Call:
    got: list[Entry] = field(default_factory=list)
    led: int = 0

    def landed(self, entry: Entry) -> None:
        self.got.append(entry)

    def lead(self) -> None:
        self.led += 1


def test_all_who_follow_get_what_the_leader_got() -> None:
    flights, calls, reply = Flights(), [Call() for _ in range(4)], entry()
    assert [flights.join(key(1), call) for call in calls] == [True, False, False, False]
    flights.land(key(1), calls[0], reply)
    assert [call.got for call in calls] == [[], [reply], [reply], [reply]]
    assert flights.join(key(1), Call())


def test_requests_that_differ_do_not_wait_for_each_other() -> None:
    flights = Flights()
    assert flights.join(key(1), Call())
    assert flights.join(key(2), Call())


def test_when_the_leader_fails_one_takes_over_and_the_rest_follow_it() -> None:
    flights, calls, reply = Flights(), [Call() for _ in range(4)], entry()
    for call in calls:
        flights.join(key(1), call)
    flights.leave(key(1), calls[0])
    assert [call.led for call in calls] == [0, 1, 0, 0]
    assert flights.join(key(1), calls[1])
    flights.land(key(1), calls[1], reply)
    assert [call.got for call in calls] == [[], [], [reply], [reply]]


def test_a_follower_that_gave_up_hears_nothing_more() -> None:
    flights, leader, follower, other = Flights(), Call(), Call(), Call()
    for call in (leader, follower, other):
        flights.join(key(1), call)
    flights.leave(key(1), follower)
    flights.leave(key(1), leader)
    assert (follower.led, other.led) == (0, 1)
    flights.land(key(1), other, entry())
    assert follower.got == []


def test_a_call_that_leads_no_more_lands_nothing() -> None:
    """Its outcome came after it had given up: who took over goes on."""
    flights, late, leader, follower = Flights(), Call(), Call(), Call()
    for call in (late, leader, follower):
        flights.join(key(1), call)
    flights.leave(key(1), late)
    flights.leave(key(1), late)
    flights.land(key(1), late, entry("late"))
    assert (leader.got, follower.got) == ([], [])
    assert (leader.led, follower.led) == (1, 0)


def test_whoever_takes_over_may_give_up_at_once() -> None:
    class Tired(Call):
        def lead(self) -> None:
            super().lead()
            flights.leave(key(1), self)

    flights, leader, tired, last = Flights(), Call(), Tired(), Call()
    for call in (leader, tired, last):
        flights.join(key(1), call)
    flights.leave(key(1), leader)
    assert (tired.led, last.led) == (1, 1)


class AnyOrder(RuleBasedStateMachine):
    """Calls join, land and leave in any order."""

    calls: Bundle[tuple[int, Call]] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.flights = Flights()
        self.open: dict[int, list[Call]] = {}

    @rule(target=calls, number=st.integers(0, 2))
    def join(self, number: int) -> tuple[int, Call]:
        call = Call()
        flight = self.open.setdefault(number, [])
        flight.append(call)
        assert self.flights.join(key(number), call) is (flight[0] is call)
        call.led += flight[0] is call
        return number, call

    @rule(joined=consumes(calls))
    def leave(self, joined: tuple[int, Call]) -> None:
        number, call = joined
        self.flights.leave(key(number), call)
        if call in self.open[number]:
            self.open[number].remove(call)

    @rule(joined=consumes(calls))
    def land(self, joined: tuple[int, Call]) -> None:
        number, call = joined
        flight = self.open[number]
        leads = bool(flight) and flight[0] is call
        reply = entry()
        self.flights.land(key(number), call, reply)
        if leads:
            self.open[number] = []
            assert all(follower.got == [reply] for follower in flight[1:])
        elif call in flight:
            self.flights.leave(key(number), call)
            flight.remove(call)

    @invariant()
    def each_flight_has_one_leader(self) -> None:
        for flight in self.open.values():
            assert [call.led for call in flight] == [int(n == 0) for n in range(len(flight))]
            assert not any(call.got for call in flight)


TestAnyOrder = AnyOrder.TestCase
