"""What kube-scheduler asks of us: which nodes fit, how good they are, whom a preemption would help, and the binding."""

from hami_core_py.services.scheduling.answers import FilterAnswer
from hami_core_py.services.scheduling.binding import Binder
from hami_core_py.services.scheduling.care import Care
from hami_core_py.services.scheduling.deciding import Mode, Scheduling
from hami_core_py.services.scheduling.telling import Teller

__all__ = ["Binder", "Care", "FilterAnswer", "Mode", "Scheduling", "Teller"]
