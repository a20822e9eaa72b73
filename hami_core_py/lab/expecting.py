"""Whether pods have become what a scenario expects of them."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.lab.pod_facts import Pod, first_container, matches, pod_path, shares_of, told
from hami_core_py.lab.processes import LabError
from hami_core_py.lab.steps import Expect, ExpectCount

EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class Pods:
    """The pods of a cluster, looked at by name.

    :ivar env_of: environment of a container as its process received it; ``None`` where it cannot be seen.
    """

    client: Client
    env_of: Callable[[Pod, str], Mapping[str, str]] | None = None

    def find(self, name: str) -> Pod | None:
        """A pod as it is now; ``None``: there is none."""
        try:
            return self.client.get(pod_path(name))
        except NotFound:
            return None

    def become(self, expect: Expect) -> None:
        """Wait until one is as expected. :raises LabError: it is not in time; with what is missing."""
        wait_until(lambda: self.missing(expect), expect.within_seconds)

    def become_so_many(self, expect: ExpectCount) -> None:
        """Wait until as many as expected are in a phase, and stay so. :raises LabError: they are not in time."""
        since: float | None = None

        def missing() -> str:
            nonlocal since
            pods = [pod for name in expect.pods if (pod := self.find(name))]
            count = sum((pod.get("status") or {}).get("phase") == expect.phase for pod in pods)
            since = (since or time.monotonic()) if count == expect.exactly else None
            settled = since is not None and time.monotonic() - since >= expect.settled_seconds
            return "" if settled else f"{count} of {len(expect.pods)} are {expect.phase}"

        wait_until(missing, expect.within_seconds)

    def missing(self, expect: Expect) -> str:
        """What is not yet as expected; empty when all is."""
        pod = self.find(expect.pod)
        if pod is None or expect.gone:
            return ("" if expect.gone else "it does not exist") if pod is None else "it is still there"
        status, node = pod.get("status") or {}, pod["spec"].get("nodeName")
        phase, text = status.get("phase"), told(pod)
        shares = shares_of(pod)
        restarts = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
        checks = (
            (not expect.phase or phase in expect.phase, f"phase is {phase} ({text or 'no reason given'})"),
            (not expect.node or node in expect.node, f"node is {node or 'none'} ({text})"),
            (not expect.unbound or (not node and bool(text)), f"bound to {node}" if node else "not told why it waits"),
            (expect.message.lower() in text.lower(), f"told {text!r}"),
            (expect.shares is None or matches(expect.shares, shares), f"shares are {json.dumps(list(shares))}"),
            (restarts >= expect.restarts_at_least, f"restarted {restarts} times"),
        )
        for holds, otherwise in checks:
            if not holds:
                return otherwise
        return (
            self._missing_devices(expect, shares)
            or self._missing_env(expect, pod, shares)
            or self._missing_log(expect, pod, shares)
        )

    def _missing_devices(self, expect: Expect, shares: tuple[dict[str, Any], ...]) -> str:
        own = {share["uuid"] for share in shares}
        for other, together in ((expect.same_device_as, True), (expect.other_device_than, False)):
            if not other:
                continue
            neighbour = self.find(other)
            theirs = {share["uuid"] for share in shares_of(neighbour)} if neighbour else set()
            if bool(own & theirs) is not together:
                return f"its devices are {sorted(own)}, those of {other} {sorted(theirs)}"
        return ""

    def _missing_env(self, expect: Expect, pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
        if not expect.env or self.env_of is None:
            return ""
        container = first_container(pod, shares)
        env = self.env_of(pod, container)
        wrong = {name: env.get(name) for name, value in expect.env.items() if env.get(name) != value}
        return f"container {container} has {wrong}" if wrong else ""

    def _missing_log(self, expect: Expect, pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
        if not expect.log:
            return ""
        container = first_container(pod, shares)
        try:
            text = self.client.text(f"{pod_path(expect.pod)}/log", {"container": container})
        except ApiError as problem:
            return f"its log cannot be read: {problem}"
        last = text.strip().splitlines()[-1:] or ["nothing"]
        return "" if expect.log.lower() in text.lower() else f"container {container} wrote, at last: {last[0]}"


def wait_until(missing: Callable[[], str], seconds: float) -> None:
    """Ask what is missing until nothing is. :raises LabError: something still is after so many seconds."""
    deadline = time.monotonic() + seconds
    while problem := missing():
        if time.monotonic() > deadline:
            raise LabError(f"after {seconds:g} s: {problem}")
        time.sleep(EVERY_SECONDS)
