"""All checks of a cluster."""

from typing import Final

from hami_core_py.decisions.doctor.admission import ADMISSION
from hami_core_py.decisions.doctor.checks import Checks
from hami_core_py.decisions.doctor.facts import ClusterFacts
from hami_core_py.decisions.doctor.nodes import NODES
from hami_core_py.decisions.doctor.pods import PODS
from hami_core_py.decisions.doctor.scheduling import SCHEDULING
from hami_core_py.decisions.doctor.workloads import WORKLOADS

CLUSTER_CHECKS: Final[Checks[ClusterFacts]] = Checks(ADMISSION, SCHEDULING, WORKLOADS, NODES, PODS)
