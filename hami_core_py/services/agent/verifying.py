"""Whose container is it, and may it have its devices: pod, record and the other pods of the node, put together."""

from dataclasses import dataclass

from hami_core_py.cluster.errors import ApiError
from hami_core_py.decisions.arbiter import HeldShare, Holder, refusal_of
from hami_core_py.decisions.claims import Claim, check_claim
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Pair, PodRecord
from hami_core_py.models.devices import Health
from hami_core_py.models.views import PodView
from hami_core_py.services.agent.checkpoints import Checkpoints, Known
from hami_core_py.services.agent.holdings import Holding, Holdings, PodRef
from hami_core_py.services.agent.mounts import Mounts
from hami_core_py.services.agent.pods import LocalPod, LocalPods
from hami_core_py.services.agent.refused import Cause, RefusedError
from hami_core_py.services.agent.table import DeviceTable


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A container whose pod's record holds: what is to be written down, and its devices and shares."""

    holding: Holding
    pairs: tuple[Pair, ...]
    pod: PodView | None = None


class Verifier:
    """Checks containers against the API server where it can be asked, and against what is on disk where it cannot.

    :param first_answer_seconds: how long a start waits for the first discovery of this run.
    """

    def __init__(
        self,
        ask: Ask,
        node: str,
        table: DeviceTable,
        pods: LocalPods,
        holdings: Holdings,
        checkpoints: Checkpoints,
        mounts: Mounts,
        *,
        first_answer_seconds: float = 10.0,
    ) -> None:
        self._ask, self._node, self._table = ask, node, table
        self._pods, self._holdings, self._checkpoints, self._mounts = pods, holdings, checkpoints, mounts
        self._first_answer = first_answer_seconds

    def verify(self, claim: Claim, holding: Holding) -> Verified:
        """Check one container's claim.

        :param holding: the name it was given. :raises RefusedError: nothing may be granted, or not now.
        """
        self._await_discovery(claim.family)
        local = self._find(claim, holding)
        if local is None:
            return self._from_disk(claim, holding)
        if local.has_ended:
            raise RefusedError(
                Cause.UNVERIFIED,
                f"pod {local.view.namespace}/{local.view.name} has ended; its containers start no more",
            )
        if local.problem:
            raise RefusedError(Cause.UNVERIFIED, local.problem)
        return self.check(claim, holding, local.view, local.record)

    def check(self, claim: Claim, holding: Holding, view: PodView, record: PodRecord | None) -> Verified:
        """Check a claim against a pod that is known. :raises RefusedError: the record does not hold for it."""
        devices = self._table.snapshot.by_id
        answer = check_claim(claim, view, record, node=self._node, devices=devices)
        if isinstance(answer, str):
            raise RefusedError(Cause.UNVERIFIED, answer)
        lost = [device.id for device, _ in answer if device.health is not Health.HEALTHY]
        if lost and holding.pod is None:
            where = f"pod {view.namespace}/{view.name}, container {claim.container!r}"
            raise RefusedError(Cause.UNVERIFIED, f"{where}: device {lost[0]} is not healthy; delete the pod")
        assert record is not None
        verified = Holding(
            name=holding.name,
            family=claim.family,
            ids=holding.ids,
            at=holding.at,
            pod=PodRef(uid=view.uid, namespace=view.namespace, name=view.name),
            container=claim.container,
            shares=held_shares(view, record),
            at_ns=record.at_ns,
            annotations=view.annotations,
            limits=next((one.limits for one in view.containers if one.name == claim.container), {}),
        )
        return Verified(holding=verified, pairs=answer, pod=view)

    def arbitrate(self, verified: Verified, *, in_allocate: bool = False) -> None:
        """Let a pod start only when all who hold its devices fit together.

        :param in_allocate: the kubelet forgets ended pods before it calls Allocate, but writes its checkpoint after: until
            then only mounts tell which containers still run without their pod.
        :raises RefusedError: the pod must wait.
        """
        holding = verified.holding
        assert holding.pod is not None
        others = self._holders(Known() if in_allocate else self._checkpoints.known() or Known())
        own = next((other for other in others if other.uid == holding.pod.uid), None)
        pod = Holder(
            uid=holding.pod.uid,
            shares=holding.shares,
            at_ns=holding.at_ns,
            has_started=own is not None and own.has_started,
        )
        problem = refusal_of(pod, others, self._table.snapshot.by_id, self._ask.families)
        if problem is not None:
            where = f"pod {holding.pod.namespace}/{holding.pod.name}, container {holding.container!r}"
            raise RefusedError(Cause.HELD, f"{where}: {problem}")

    def _holders(self, known: Known) -> list[Holder]:
        """Pods that hold devices of this node or wait to: by their records, or by what is on disk."""
        granted: dict[str, list[Holding]] = {}
        for holding in self._holdings.all():
            if holding.pod is not None:
                granted.setdefault(holding.pod.uid, []).append(holding)
        holders = []
        for local in self._pods.all():
            uid = local.view.uid
            if local.has_ended:
                granted.pop(uid, None)
            elif local.record is not None and local.record.node == self._node:
                shares = held_shares(local.view, local.record)
                started = granted.pop(uid, None) is not None
                holders.append(Holder(uid=uid, shares=shares, at_ns=local.record.at_ns, has_started=started))
        for uid, holdings in granted.items():
            # The pod object is not known: gone by force, or the API server is away. Its containers may still run.
            is_here = not self._pods.is_complete or any(
                known.has(holding.name, uid, holding.container) or self._mounts.has(holding.name)
                for holding in holdings
            )
            if is_here or self._pods.known(uid) is not None:
                last = holdings[-1]
                holders.append(Holder(uid=uid, shares=last.shares, at_ns=last.at_ns, has_started=True))
        return holders

    def _await_discovery(self, family: str) -> None:
        """Devices known from an earlier run may have gone: wait for this run's first answer, for a while."""
        source = self._table.snapshot.sources.get(family)
        if source is not None and not self._table.wait_answered(source, self._first_answer):
            raise RefusedError(
                Cause.UNAVAILABLE,
                f"the devices of family {family!r} have not been discovered yet; the kubelet tries again",
            )

    def _find(self, claim: Claim, holding: Holding) -> LocalPod | None:
        """The pod; ``None``: the API server cannot be asked, and what is on disk counts."""
        on_disk = holding.pod is not None
        if on_disk and not self._pods.is_complete:
            return self._pods.known(claim.uid)
        try:
            local = self._pods.find(claim.uid)
        except ApiError as problem:
            if on_disk:
                return None
            raise RefusedError(
                Cause.UNAVAILABLE,
                f"container {claim.container!r} of the pod with UID {claim.uid}: its record cannot be verified while the "
                f"API server is away ({problem}); the kubelet tries again",
            ) from problem
        if local is None:
            raise RefusedError(
                Cause.UNVERIFIED,
                f"container {claim.container!r}: no pod with UID {claim.uid} is bound to node {self._node}",
            )
        return local

    def _from_disk(self, claim: Claim, holding: Holding) -> Verified:
        """What an earlier start has verified and written down."""
        devices = self._table.snapshot.by_id
        own = [
            s for s in holding.shares if s.container == claim.container and s.family == claim.family and s.share.slots
        ]
        missing = [share.device for share in own if share.device not in devices]
        matches = holding.pod is not None and holding.pod.uid == claim.uid and holding.container == claim.container
        if not matches or missing or len(own) != claim.count:
            raise RefusedError(
                Cause.UNVERIFIED,
                f"container {claim.container!r} of the pod with UID {claim.uid}: what this node wrote down for it does not "
                f"hold any more ({f'device {missing[0]} is gone' if missing else 'another container'}); delete the pod",
            )
        return Verified(holding=holding, pairs=tuple((devices[s.device], s.share) for s in own))


def held_shares(view: PodView, record: PodRecord) -> tuple[HeldShare, ...]:
    """All shares of a pod with the kinds of their containers, in the pod's order."""
    order = {container.name: (place, container.kind) for place, container in enumerate(view.containers)}
    known = [share for share in record.shares if share.container in order]
    return tuple(
        HeldShare(container=s.container, kind=order[s.container][1], family=s.family, device=s.device, share=s.share)
        for s in sorted(known, key=lambda s: order[s.container][0])
    )
