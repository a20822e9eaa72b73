"""What a scenario measures: use of simulated devices, as their simulator knows it, and what monitors show."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from hami_core_py.lab.descriptions import describe_metric
from hami_core_py.lab.expecting import Pods, wait_until
from hami_core_py.lab.pod_facts import first_container, shares_of, split_name
from hami_core_py.lab.processes import LabError
from hami_core_py.lab.scrape import value_of
from hami_core_py.lab.simulator import Simulator, container_tag, look_for
from hami_core_py.lab.steps import Measure, MeasureMemory, Metric

MIB = 2**20


@dataclass(frozen=True)
class Gauges:
    """Looks at devices and monitors.

    :ivar simulator_of: simulated devices of a node; ``None`` where there are none.
    :ivar scrape: what the monitor of a node shows; ``None`` where it cannot be reached.
    """

    pods: Pods
    simulator_of: Callable[[str], Simulator | None] | None = None
    scrape: Callable[[str], str] | None = None

    def cores(self, measure: Measure) -> str:
        """Measure shares of a device's time until they are as expected; what was seen. :raises LabError: they are not."""
        simulator, tags = self._simulated(tuple(measure.cores))
        deadline = time.monotonic() + measure.within_seconds
        while True:
            got = look_for(simulator, tags, measure.seconds)
            text = ", ".join(f"{pod} {share:.1f} %" for pod, share in got.items())
            off = [pod for pod, wanted in measure.cores.items() if abs(got[pod] - wanted) > measure.tolerance]
            if not off:
                return f"measured over {measure.seconds:g} s: {text} of the device's time"
            if time.monotonic() > deadline:
                wanted = ", ".join(f"{pod} {share:g}" for pod, share in measure.cores.items())
                raise LabError(f"{text} of the device's time; expected {wanted}, within {measure.tolerance:g} points")

    def memory(self, measure: MeasureMemory) -> str:
        """Look at the most memory that a pod ever held; what was seen. :raises LabError: it is not as expected."""
        simulator, tags = self._simulated((measure.pod,))
        peak = simulator.use(tags.values())[tags[measure.pod]].peak_bytes / MIB
        if not measure.memory_mib_at_least <= peak <= measure.memory_mib_at_most:
            expected = f"{measure.memory_mib_at_least} to {measure.memory_mib_at_most} MiB"
            raise LabError(f"{measure.pod} held {peak:.0f} MiB at most; expected {expected}")
        return f"measured: {measure.pod} never held more than {peak:.0f} MiB"

    def metric(self, metric: Metric) -> str:
        """Wait until a monitor shows what is expected; what it shows. :raises LabError: it does not."""
        if self.scrape is None:
            raise LabError("the monitors of this cluster cannot be reached from here")
        scrape, shown = self.scrape, ""

        def missing() -> str:
            nonlocal shown
            value = value_of(scrape(metric.node), metric.name, metric.labels)
            shown = "is not shown" if value is None else f"is {value:g}"
            return "" if (metric.absent if value is None else _within(value, metric)) else f"it {shown}"

        wait_until(missing, metric.within_seconds)
        return f"{describe_metric(metric)} {shown}"

    def _simulated(self, names: tuple[str, ...]) -> tuple[Simulator, dict[str, str]]:
        """The simulator of the node that these pods run on, and its names of their containers."""
        pods = {name: self.pods.find(name) for name in names}
        nodes = {pod["spec"].get("nodeName", "") if pod else "" for pod in pods.values()}
        simulator = self.simulator_of(nodes.pop()) if self.simulator_of and len(nodes) == 1 else None
        if simulator is None:
            raise LabError(f"{', '.join(names)}: expected pods on one node with simulated devices")
        tags = {
            name: container_tag(*split_name(name), first_container(pod, shares_of(pod)))
            for name, pod in pods.items()
            if pod is not None
        }
        return simulator, tags


def _within(value: float, metric: Metric) -> bool:
    low, high = metric.at_least, metric.at_most
    return not metric.absent and (low is None or value >= low) and (high is None or value <= high)
