"""Checks of rules, selection, scores and records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import PlacedPod
from hami_core_py.models.answers import Candidate, Refusal
from hami_core_py.models.backends import DeviceRule
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import PlacementView
from hami_core_py.testing.checks.scene import Scene
from hami_core_py.testing.recording import RecordingCandidate


class ChoiceChecks(Scene):
    """Where shares go."""

    def test_rules_read_only_the_fields_they_declare(
        self, ask: Ask, request_: DeviceRequest, candidates: Sequence[Candidate]
    ) -> None:
        for rule in ask.filter_rules(request_, self.asking()[1]):
            if not isinstance(rule, DeviceRule):
                continue
            assert rule.sentence
            for candidate in candidates:
                recording = RecordingCandidate(candidate)
                rule.refuses(cast("Candidate", recording))
                assert recording.read <= set(rule.reads), f"{rule.sentence}: declare these in reads"

    def test_selection_is_so_many_distinct_seats_or_a_refusal(
        self, ask: Ask, request_: DeviceRequest, candidates: Sequence[Candidate]
    ) -> None:
        for count in range(1, len(candidates) + 2):
            answer = ask.select_devices(replace(request_, count=count), candidates)
            assert answer is None or isinstance(answer, tuple | Refusal)

    def test_score_is_between_0_and_1(self, ask: Ask, family: Family, candidates: Sequence[Candidate]) -> None:
        for policy in ("binpack", "spread"):
            for taken in range(1, len(candidates) + 1):
                view = PlacementView(
                    family=family.name,
                    chosen=(tuple(candidates[:taken]),),
                    before=tuple(candidates),
                    node_policy=policy,
                )
                score = ask.score_placement(view)
                assert score is None or 0.0 <= score <= 1.0

    def test_record_has_only_announced_annotations(self, ask: Ask, placed: PlacedPod) -> None:
        assert set(ask.write_record(placed)) <= set(self.plugin.hami_backend().annotations)
