"""*Late* identity: Allocate gives out a name, PreStartContainer finds out whose it is and gives it a meaning.

Nothing but files is kept, so that a restart of the agent or the kubelet between the two, or at any other time, loses nothing.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence

from hami_core_py.cluster.events import About, Events
from hami_core_py.codecs.cdi import cdi_kind, class_word, qualified
from hami_core_py.codecs.checkpoint import CheckpointError
from hami_core_py.decisions.claims import Claim
from hami_core_py.decisions.kubelet_ids import preferred_ids
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Mount
from hami_core_py.models.devices import DeviceId
from hami_core_py.services.agent.answers import Answer
from hami_core_py.services.agent.checkpoints import Checkpoints, Owner
from hami_core_py.services.agent.granting import Granter
from hami_core_py.services.agent.holdings import Holding, Holdings
from hami_core_py.services.agent.meter import Meter
from hami_core_py.services.agent.pods import LocalPods
from hami_core_py.services.agent.refused import Cause, RefusedError
from hami_core_py.services.agent.verifying import Verified, Verifier

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.05
"""Pause after a new CDI spec: a runtime learns of it by a file event that may lag, and a name it does not find costs 10 s."""


def container_directory(family: str) -> str:
    """Where a container sees the directory it was given for a family."""
    return f"/etc/hami/{class_word(family)}"


class LateIdentity:
    """Serves the kubelet's calls for all families of this node."""

    prestart = True
    """Whether the kubelet must call PreStartContainer."""

    def __init__(
        self,
        ask: Ask,
        holdings: Holdings,
        checkpoints: Checkpoints,
        verifier: Verifier,
        granter: Granter,
        pods: LocalPods,
        meter: Meter,
        *,
        events: Events | None = None,
        settle: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ask, self._holdings, self._checkpoints = ask, holdings, checkpoints
        self._verifier, self._granter, self._pods, self._meter = verifier, granter, pods, meter
        self._events, self._settle = events, settle
        self._deciding = threading.Lock()

    def allocate(self, family: str, requests: Sequence[frozenset[str]], _is_alive: Callable[[], bool]) -> list[Answer]:
        """Per container a fresh name, closed until PreStartContainer gives it a meaning. Depends on nothing but ids."""
        owner = self._ask.owner(family)
        answers = []
        for ids in requests:
            try:
                holding = self._holdings.create(family, ids)
            except OSError as problem:
                raise RefusedError(Cause.UNAVAILABLE, f"the node cannot prepare a container: {problem}") from problem
            directory = str(self._holdings.directory(holding.name))
            answers.append(
                Answer(
                    env=owner.info.closing_env,
                    mounts=(Mount(host_path=directory, container_path=container_directory(family)),),
                    cdi_devices=(qualified(cdi_kind(family), holding.name),),
                )
            )
        return answers

    def prefer(self, family: str, available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
        """Ids on the devices of the one pod that can be meant, so that the kubelet's view agrees; else spread ids."""
        granted = {h.pod.uid for h in self._holdings.all() if h.pod is not None}
        wanted: list[list[DeviceId]] = []
        for local in self._pods.all():
            if local.view.uid in granted or local.has_ended or local.record is None:
                continue
            by_container: dict[str, list[DeviceId]] = {}
            for share in local.record.shares:
                if share.family == family and share.share.slots:
                    by_container.setdefault(share.container, []).append(share.device)
            wanted += [devices for devices in by_container.values() if len(devices) == size]
        known = wanted[0] if wanted and all(sorted(w) == sorted(wanted[0]) for w in wanted) else None
        chosen = preferred_ids(available, must_include, size, known)
        return chosen or preferred_ids(available, must_include, size, None)

    def prepare(self, family: str, ids: frozenset[str]) -> None:
        """Give every name with just these ids its meaning.

        One of several that fails stays closed, with an event on its pod, and does not hold up the others.

        :raises RefusedError: nobody has these ids, or nobody who has them may start.
        """
        resource = self._ask.families[family].resources.count
        try:
            owners = self._checkpoints.owners(family, resource, ids)
        except CheckpointError as problem:
            self._meter.allocated(family, Cause.UNVERIFIED.value)
            raise RefusedError(
                Cause.UNVERIFIED, f"the node cannot tell whose container starts: {problem}; ask the node's operator"
            ) from problem
        refusals: list[RefusedError] = []
        served = 0
        for owner in owners:
            if self._pods.has_ended(owner.pod_uid):
                continue  # the kubelet forgets ended pods late, and may have handed their ids on
            try:
                self._prepare_one(family, ids, owner)
                served += 1
                self._meter.allocated(family, "granted")
            except RefusedError as refusal:
                refusals.append(refusal)
                self._meter.allocated(family, refusal.cause.value)
                self._tell(owner, refusal)
        if served:
            return
        if refusals:
            raise (
                refusals[0]
                if len(refusals) == 1
                else RefusedError(refusals[0].cause, "; ".join(dict.fromkeys(str(refusal) for refusal in refusals)))
            )
        self._meter.allocated(family, Cause.UNVERIFIED.value)
        raise RefusedError(
            Cause.UNVERIFIED,
            f"the kubelet's checkpoint names no container of ours with {resource} ids {', '.join(sorted(ids))}; "
            "delete the pod so that it is started anew",
        )

    def _prepare_one(self, family: str, ids: frozenset[str], owner: Owner) -> None:
        if not owner.name:
            self._check_served(family, ids, owner)
            return
        holding = self._holdings.get(owner.name) or Holding(name=owner.name, family=family, ids=ids, at=time.time())
        claim = Claim(uid=owner.pod_uid, container=owner.container, family=family, count=len(ids))
        if holding.pod is not None and (holding.pod.uid, holding.container) != (owner.pod_uid, owner.container):
            raise RefusedError(
                Cause.UNVERIFIED, f"container {owner.container!r}: its name was given to another container"
            )
        verified = self._verifier.verify(claim, holding)
        is_new = self._take(verified, holding)
        try:
            grant = self._granter.grant(verified.holding, verified.pairs)
            wrote = self._granter.write(verified.holding, grant)
        except RefusedError:
            if is_new:
                # Nothing was granted: the devices are free again for the next in line.
                with contextlib.suppress(OSError):
                    self._holdings.keep(holding)
            raise
        if wrote:
            log.info(
                "container granted",
                extra={
                    "pod_uid": owner.pod_uid,
                    "container": owner.container,
                    "family": family,
                    "devices": [device.id for device, _ in verified.pairs],
                    "cdi_name": owner.name,
                },
            )
            self._settle(SETTLE_SECONDS)

    def _check_served(self, family: str, ids: frozenset[str], owner: Owner) -> None:
        """A container whose Allocate was answered in full, in *ordered* mode or by an earlier plugin, may start again."""
        holding = Holding(name="", family=family, ids=ids, at=time.time())
        claim = Claim(uid=owner.pod_uid, container=owner.container, family=family, count=len(ids))
        verified = self._verifier.verify(claim, holding)
        with self._deciding:
            self._verifier.arbitrate(verified)

    def _take(self, verified: Verified, before: Holding) -> bool:
        """Take the devices for the pod, one pod after another, so that two cannot take the same room.

        :returns: whether this is the container's first start here.
        """
        with self._deciding:
            self._verifier.arbitrate(verified)
            try:
                if verified.holding != before:
                    self._holdings.keep(verified.holding)
            except OSError as problem:
                raise RefusedError(Cause.UNAVAILABLE, f"the node cannot write a record: {problem}") from problem
        return before.pod is None

    def _tell(self, owner: Owner, refusal: RefusedError) -> None:
        log.warning(
            "container refused",
            extra={
                "pod_uid": owner.pod_uid,
                "container": owner.container,
                "cause": refusal.cause.value,
                "problem": str(refusal),
            },
        )
        local = self._pods.known(owner.pod_uid)
        if local is not None and self._events is not None:
            about = About("Pod", local.view.name, local.view.namespace, local.view.uid)
            reason = "DevicesHeld" if refusal.cause is Cause.HELD else "DevicesRefused"
            self._events.say(about, "Warning", reason, str(refusal))
