"""From watch events to inventory and ledger: the only way in which the scheduler learns of nodes and pods."""

from hami_core_py.services.intake.nodes import NodeIntake, Served
from hami_core_py.services.intake.pods import PodIntake, PodListener, PodNews, read_pod_news

__all__ = ["NodeIntake", "PodIntake", "PodListener", "PodNews", "Served", "read_pod_news"]
