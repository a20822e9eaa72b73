"""The node agent as a whole: what it is made of, how it starts and ends, and which families it offers to the kubelet."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.events import Events
from hami_core_py.codecs.checkpoint import CheckpointError
from hami_core_py.codecs.native import Identity
from hami_core_py.errors import BackendError, BadInputError, HamiError, SettingsError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.services.agent.checkpoints import Checkpoints, PodResources
from hami_core_py.services.agent.cleanup import CleanUp
from hami_core_py.services.agent.discovery import Discovery
from hami_core_py.services.agent.granting import Granter
from hami_core_py.services.agent.holdings import Holdings
from hami_core_py.services.agent.hostfiles import HostFiles
from hami_core_py.services.agent.late import LateIdentity
from hami_core_py.services.agent.meter import Meter
from hami_core_py.services.agent.mounts import Mounts
from hami_core_py.services.agent.options import AgentOptions, choose_identity
from hami_core_py.services.agent.ordered import OrderedIdentity
from hami_core_py.services.agent.pods import LocalPods
from hami_core_py.services.agent.publishing import Publisher
from hami_core_py.services.agent.remembered import Remembered
from hami_core_py.services.agent.shared import SharedFiles
from hami_core_py.services.agent.table import DeviceTable
from hami_core_py.services.agent.verifying import Verifier

log = logging.getLogger(__name__)

OFFER_UNKNOWN_AFTER_SECONDS = 1.0
"""A backend that has not answered by then gets its families offered without devices, so that the kubelet knows the plugin."""


class Agent:
    """One node agent.

    :param cdi_names: the CDI names in a serialized Allocate answer.
    :param on_fatal: called when the agent cannot go on; with the reason.
    """

    def __init__(
        self,
        ask: Ask,
        client: Client,
        options: AgentOptions,
        *,
        cdi_names: Callable[[bytes], Sequence[str]],
        pod_resources: PodResources | None = None,
        on_fatal: Callable[[HamiError], None] = lambda _problem: None,
    ) -> None:
        self.ask, self.options, self.meter = ask, options, Meter()
        self.mode: Identity = choose_identity(options.identity, options.cdi_dir)
        self._asked = backends_to_ask(ask, options.backends)
        self.table = DeviceTable(backend.info.name for backend in self._asked)
        names = [backend.info.name for backend in self._asked]
        self._remembered = Remembered(options.state_dir / "devices", self.table, names, ask.families, self.mode)
        self._events = Events(client, "hami-device-plugin")
        self.holdings = Holdings(options.state_dir)
        self._host_files = HostFiles(options.state_dir)
        self._pods = LocalPods(client, options.node, ask.families, trust_v210=options.trust_v210)
        mounts = Mounts(options.proc)
        self.checkpoints = Checkpoints(
            options.plugin_dir, cdi_names, pods=self._pods, holdings=self.holdings, pod_resources=pod_resources
        )
        self._granter = Granter(
            ask,
            self.table,
            self.holdings,
            self._host_files,
            cdi_dir=options.cdi_dir,
            vendor_dirs=options.vendor_cdi_dirs,
            timeout_seconds=options.call_timeout_seconds,
            has_ended=self._pods.has_ended,
        )
        verifier = Verifier(ask, options.node, self.table, self._pods, self.holdings, self.checkpoints, mounts)
        self.identity: LateIdentity | OrderedIdentity
        if self.mode == "late":
            self.identity = LateIdentity(
                ask,
                self.holdings,
                self.checkpoints,
                verifier,
                self._granter,
                self._pods,
                self.meter,
                events=self._events,
            )
        else:
            self.identity = OrderedIdentity(
                ask,
                options.node,
                client,
                self.holdings,
                verifier,
                self._granter,
                self.meter,
                trust_v210=options.trust_v210,
                events=self._events,
            )
        self._shared = SharedFiles(self.holdings, self._events)
        self._cleanup = CleanUp(
            self.holdings,
            self.checkpoints,
            self._pods,
            self._granter,
            mounts,
            events=self._events,
        )
        self._discovery = Discovery(
            ask,
            self._asked,
            self.table,
            self.meter,
            interval_seconds=options.discovery_seconds,
            timeout_seconds=options.discovery_timeout_seconds,
            on_conflict=on_fatal,
        )
        self._publisher = Publisher(
            client,
            options.node,
            self.table,
            ask.families,
            backends=names,
            identity=self.mode,
            publish_totals=options.publish_totals,
            lease_namespace=options.lease_namespace,
            lease_seconds=options.lease_seconds,
        )
        self._started_at = 0.0
        self._stopped = threading.Event()
        self._ever_offered: set[str] = set()
        self._housekeeping = threading.Thread(target=self._keep_house, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Begin; returns at once, with the devices of an earlier run, whether backends or the API server answer or not.

        :raises SettingsError: a directory cannot be used.
        """
        try:
            self.holdings.open()
            self._remembered.recall()
            if self.mode == "late":
                self.options.cdi_dir.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingsError("agent.stateDir", "a directory that can be written", str(problem)) from problem
        self._started_at = time.monotonic()
        # Before the kubelet can ask for anything: a runtime makes a directory of a mount source that is not there yet.
        self._install_host_files()
        try:
            self.checkpoints.read()
        except CheckpointError as problem:
            log.warning(
                "kubelet's checkpoint not understood; asking it for single pods", extra={"problem": str(problem)}
            )
        log.info("agent starts", extra={"node": self.options.node, "identity": self.mode})
        self._discovery.start()
        self._pods.start()
        self._publisher.start()
        self._housekeeping.start()
        self._remembered.start()

    def stop(self) -> None:
        """End all threads; nothing is taken back, containers run on."""
        self._stopped.set()
        self.table.close()
        self._discovery.stop()
        self._publisher.stop()
        self._pods.stop()
        self._events.stop()
        self._remembered.stop()
        self._housekeeping.join(2.0)

    def offered_families(self) -> tuple[str, ...]:
        """Families whose count resource the kubelet must be told of now, sorted.

        Those with devices; those that had some in this run; and for a while those of backends that are slow to answer.
        """
        snapshot = self.table.snapshot
        self._ever_offered |= {device.family for device in snapshot.devices}
        families = set(self._ever_offered)
        if time.monotonic() - self._started_at > OFFER_UNKNOWN_AFTER_SECONDS:
            families |= {f.name for b in self._asked if b.info.name in snapshot.pending for f in b.families}
        return tuple(sorted(name for name in families if self.ask.families[name].served))

    def missing(self) -> str | None:
        """What the agent still waits for; ``None``: nothing."""
        pending = sorted(self.table.snapshot.pending)
        return f"backends that have not answered yet: {', '.join(pending)}" if pending else None

    def _keep_house(self) -> None:
        while not self._stopped.is_set():
            for work in (self._install_host_files, self._reconcile, self._cleanup.sweep, self._shared.look):
                try:
                    work()
                except Exception:
                    log.exception("housekeeping failed", extra={"work": work.__name__})
            self._stopped.wait(self.options.sweep_seconds)

    def _install_host_files(self) -> None:
        for backend in self.ask.backends.loaded:
            try:
                self._host_files.install(backend)
            except BackendError as problem:
                log.error("host files not installed", extra={"backend": backend.info.name, "problem": str(problem)})

    def _reconcile(self) -> None:
        """Let backends make their hardware agree with what containers hold, once it is known what there is."""
        if self.table.snapshot.pending:
            return
        for backend in self.ask.backends.loaded:
            try:
                self._granter.reconcile(backend)
            except (BackendError, BadInputError) as problem:
                log.warning("reconciliation failed", extra={"backend": backend.info.name, "problem": str(problem)})


def backends_to_ask(ask: Ask, names: Sequence[str]) -> tuple[LoadedBackend, ...]:
    """The backends that are asked for devices. :raises SettingsError: a name is not loaded, or cannot be asked."""
    able = {b.info.name: b for b in ask.backends.loaded if "hami_discover_devices" in b.hooks}
    for name in names:
        if name not in able:
            known = ", ".join(able) or "none"
            raise SettingsError(
                "--backend", "a loaded backend that discovers devices", repr(name), f"known are {known}"
            )
    return tuple(backend for name, backend in able.items() if not names or name in names)
