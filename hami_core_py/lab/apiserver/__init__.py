"""The lab's Kubernetes API server: a store with Kubernetes' semantics, and HTTP around it.

Read `objects.py` (versions, history, watches), then `store.py` (what a request does), then `http.py`.
"""

from hami_core_py.lab.apiserver.calls import Admission, Call, Caller
from hami_core_py.lab.apiserver.deletion import Preconditions
from hami_core_py.lab.apiserver.faults import Fault, Faults, consult
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.lab.apiserver.logs import logs_below
from hami_core_py.lab.apiserver.server import ApiServer
from hami_core_py.lab.apiserver.status import StatusError
from hami_core_py.lab.apiserver.store import Store

__all__ = [
    "Admission",
    "ApiServer",
    "Call",
    "Caller",
    "Fault",
    "Faults",
    "Preconditions",
    "StatusError",
    "Store",
    "consult",
    "logs_below",
    "write_kubeconfig",
]
