"""Checks of what a decision may not do: reach out, change its arguments, depend on the thread."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.views import PlacementView
from hami_core_py.testing.checks.scene import Scene
from hami_core_py.testing.recording import frozen, watch_opens

THREADS, ROUNDS = 8, 20


@dataclass(frozen=True)
class Decision:
    """A question and what it is asked about."""

    question: Callable[..., Any]
    arguments: tuple[Any, ...]

    def answer(self) -> Any:
        """Ask once more. Rules hold functions, which are new each time; all else compares by value."""
        answer = self.question(*self.arguments)
        if isinstance(answer, tuple):
            return tuple((r.reason, r.sentence, r.reads, r.key) if hasattr(r, "refuses") else r for r in answer)
        return answer


class DecisionChecks(Scene):
    """What holds for every hook that decides."""

    @pytest.fixture
    def decisions(self, ask: Ask, backend: LoadedBackend, request: pytest.FixtureRequest) -> Sequence[Decision]:
        """Every question that decides, about the container that asks for one device and the given devices."""
        if not backend.families or not self.one_device:
            pytest.skip("it owns no family that one_device asks for")
        of = request.getfixturevalue
        family, wanted = of("family"), of("request_")
        asking, its_pod = self.asking()
        made = [
            Decision(ask.admit_container, (backend, asking, its_pod)),
            Decision(ask.read_request, (asking, its_pod, family)),
            Decision(ask.filter_rules, (wanted, its_pod)),
        ]
        if any(device.family == family.name for device in of("devices")):
            seats = of("candidates")
            view = PlacementView(family=family.name, chosen=(seats[:1],), before=seats)
            made += [
                Decision(ask.select_devices, (wanted, seats)),
                Decision(ask.score_placement, (view,)),
                Decision(ask.write_record, (of("placed"),)),
                Decision(ask.read_record, (its_pod, family, [seat.share for seat in seats])),
            ]
        return made

    def test_decisions_open_nothing(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            decision.answer()  # a lazy import may open files, once
            with watch_opens() as opened:
                decision.answer()
            assert not opened, f"a decision must not reach beyond the process: {opened}"

    def test_decisions_change_no_argument(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            before = frozen(decision.arguments)
            decision.answer()
            assert frozen(decision.arguments) == before, f"{decision.question.__name__} changed what it was given"

    def test_decisions_agree_across_threads(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            answers: list[Any] = []
            barrier = threading.Barrier(THREADS)
            threads = [threading.Thread(target=_ask_often, args=(decision, barrier, answers)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert answers == [decision.answer()] * (THREADS * ROUNDS)


def _ask_often(decision: Decision, barrier: threading.Barrier, answers: list[Any]) -> None:
    barrier.wait()
    answers.extend(decision.answer() for _ in range(ROUNDS))
