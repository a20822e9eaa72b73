"""The ledger's protocol as a text that is run exhaustively: every interleaving of a few processes, killed at any step.

The steps bear the names of ``src/steps.h``; ``src/ledger.c`` has the same names at the same places, where a test
build can be stopped or killed. A process here has a slot; ``next`` says which step it takes next. The kernel knows
who lives (the byte of the slot), and that is all anybody trusts.

    python owner_word.py          run every scenario; status 1 when a law is broken
"""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

LIMIT = 10
FREE = (0, 0)
"""An owner word: (epoch, slot + 1); (0, 0) when nobody holds it."""


@dataclass(frozen=True)
class State:
    """Everything shared, and where every process stands."""

    used: int
    slots: tuple[int, ...]  # what each slot says
    epochs: tuple[int, ...]
    holder: tuple[int, ...]  # which process holds each slot's byte, -1: nobody
    owner: tuple[int, int]
    card: tuple[int, ...]  # what the card holds for each process
    next: tuple[str, ...]
    names: tuple[tuple[int, int], ...]  # what each process writes into the owner word
    kills: int


@dataclass(frozen=True)
class Scenario:
    """Processes ask for so much once; ``slot`` says which slot each takes, so that one can follow another in the same."""

    asks: tuple[int, ...]
    slot: tuple[int, ...]
    kills: int
    recount: bool = True
    epochs: bool = True


def put(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])


def lives(state: State, scenario: Scenario, word: tuple[int, int]) -> bool:
    """Does the owner live, as far as the kernel and the slot's epoch tell?"""
    epoch, slot = word[0], word[1] - 1
    if scenario.epochs and state.epochs[slot] != epoch:
        return False
    return state.holder[slot] >= 0


def steps(state: State, scenario: Scenario) -> Iterator[tuple[str, State]]:
    for me in range(len(scenario.asks)):
        at, slot, ask, name = state.next[me], scenario.slot[me], scenario.asks[me], state.names[me]
        if at in ("dead", "done"):
            continue
        if at != "CLAIM" and state.kills < scenario.kills:
            freed = put(state.holder, slot, -1)
            yield (
                f"kill {me}",
                replace(
                    state,
                    holder=freed,
                    card=put(state.card, me, 0),
                    next=put(state.next, me, "dead"),
                    kills=state.kills + 1,
                ),
            )

        def go(to: str, **changes: object) -> tuple[str, State]:
            return f"{at} {me}", replace(state, next=put(state.next, me, to), **changes)  # noqa: B023

        what, _, then = at.partition(" ")
        if at == "CLAIM":
            if state.holder[slot] < 0:
                yield go("EPOCH", holder=put(state.holder, slot, me))
        elif at == "EPOCH":
            epoch = state.epochs[slot] + 1 if scenario.epochs else 0
            yield go("INHERIT", epochs=put(state.epochs, slot, epoch), names=put(state.names, me, (epoch, slot + 1)))
        elif at == "INHERIT":
            before = (name[0] - 1 if scenario.epochs else 0, slot + 1)
            if state.owner == before:
                yield go("ZERO_OWN", owner=name)  # the predecessor died inside
            elif state.slots[slot]:
                yield go("LOCK ZERO_OWN")
            else:
                yield go("LOCK CHECK")
        elif at == "ZERO_OWN":
            yield go("RECOUNT UNLOCK_IN", slots=put(state.slots, slot, 0))
        elif what == "LOCK":
            if state.owner == FREE:
                yield go(then, owner=name)
            elif not lives(state, scenario, state.owner):
                yield go(f"TAKE_OVER {then} {state.owner[0]} {state.owner[1]}")
        elif what == "TAKE_OVER":
            to, epoch, who = then.rsplit(" ", 2)
            if state.owner == (int(epoch), int(who)):
                yield go(f"RECOUNT {to}" if scenario.recount else to, owner=name)
            else:
                yield go(f"LOCK {to}")
        elif what == "RECOUNT":
            dead = [i for i, n in enumerate(state.slots) if n and state.holder[i] < 0]
            if dead:
                yield f"ZERO {me}", replace(state, slots=put(state.slots, dead[0], 0))
            else:
                yield go(then, used=sum(state.slots))
        elif at in ("CHECK", "CHECK2"):
            if ask <= LIMIT - state.used:
                yield go("SLOT_UP")
            else:
                yield go("RECOUNT CHECK2" if at == "CHECK" else "UNLOCK_REFUSED")
        elif at == "SLOT_UP":
            yield go("USED_UP", slots=put(state.slots, slot, state.slots[slot] + ask))
        elif at == "USED_UP":
            yield go("UNLOCK", used=state.used + ask)
        elif at == "UNLOCK":
            yield go("DRIVER", owner=FREE)
        elif at == "DRIVER":
            yield go("FREE", card=put(state.card, me, ask))
            yield go("LOCK USED_DOWN")  # the driver refused
        elif at == "FREE":
            yield go("LOCK USED_DOWN", card=put(state.card, me, 0))
        elif at == "USED_DOWN":
            yield go("SLOT_DOWN", used=state.used - min(ask, state.used))
        elif at == "SLOT_DOWN":
            yield go("UNLOCK_LAST", slots=put(state.slots, slot, state.slots[slot] - ask))
        elif at == "UNLOCK_IN":
            yield go("LOCK CHECK", owner=FREE)
        elif at in ("UNLOCK_LAST", "UNLOCK_REFUSED"):
            yield go("done", owner=FREE)


def inside(state: State) -> list[int]:
    """Processes between taking the owner word and leaving it, dead ones aside."""
    within = (
        "CHECK",
        "CHECK2",
        "SLOT_UP",
        "USED_UP",
        "UNLOCK",
        "USED_DOWN",
        "SLOT_DOWN",
        "UNLOCK_IN",
        "UNLOCK_LAST",
        "UNLOCK_REFUSED",
        "ZERO_OWN",
    )
    return [i for i, at in enumerate(state.next) if at in within or at.startswith("RECOUNT")]


def broken(state: State, scenario: Scenario, moves: bool) -> str | None:
    if sum(state.card) > LIMIT:
        return "the card holds more than the limit"
    if len(inside(state)) > 1:
        return "two are inside"
    if not moves and any(at not in ("done", "dead", "CLAIM") for at in state.next):
        return "somebody waits for ever"
    for me, at in enumerate(state.next):
        held = sum(state.slots[i] for i in range(len(state.slots)) if state.holder[i] >= 0)
        if at == "UNLOCK_REFUSED" and held + scenario.asks[me] <= LIMIT and held == sum(state.slots):
            return "refused although it fits"
    ended = all(at in ("done", "dead") for at in state.next) and "done" in state.next
    if ended and state.owner == FREE and state.used != sum(state.slots):
        return "the sum is not what the slots say"
    return None


def run(scenario: Scenario) -> tuple[int, str | None]:
    """States seen, and the first broken law with the way to it."""
    n, slots = len(scenario.asks), max(scenario.slot) + 1
    start = State(0, (0,) * slots, (0,) * slots, (-1,) * slots, FREE, (0,) * n, ("CLAIM",) * n, ((0, 0),) * n, 0)
    came: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        following = list(steps(state, scenario))
        law = broken(state, scenario, bool(following))
        if law:
            way: list[str] = []
            at: State | None = state
            while at is not None and (back := came[at]) is not None:
                at, label = back
                way.append(label)
            return len(came), f"{law}: {' > '.join(reversed(way))}"
        for label, then in following:
            if then not in came:
                came[then] = (state, label)
                queue.append(then)
    return len(came), None


GOOD = (
    Scenario((6, 6), (0, 1), 2),
    Scenario((12, 6), (0, 1), 1),
    Scenario((6, 5, 4), (0, 1, 2), 2),
    Scenario((6, 5, 4), (0, 0, 1), 2),  # one follows another in the same slot
)
BAD = (
    Scenario((6, 6, 6), (0, 1, 2), 2, recount=False),
    Scenario((6, 5, 4), (0, 0, 1), 2, epochs=False),
)


def main(arguments: Sequence[str] = ()) -> int:
    wrong = 0
    for scenario in GOOD:
        seen, law = run(scenario)
        print(scenario, seen, "states", law or "holds")
        wrong += law is not None
    for scenario in BAD:  # the model must be able to fail
        seen, law = run(scenario)
        print(scenario, seen, "states", law or "holds, which it must not")
        wrong += law is None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
