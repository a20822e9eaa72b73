"""A cluster in which no node has a device of any kind yet."""

from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.hooks import API, hookimpl
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.answers import Reason
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Policies
from hami_core_py.services.engine import Engine
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing.builders import COUNT, container, family, node, pod


class Acme:
    """A backend with one family."""

    @hookimpl
    def hami_backend(self) -> BackendInfo:
        return BackendInfo(name="acme", api=API)

    @hookimpl
    def hami_families(self) -> tuple[Family, ...]:
        return (family(),)


def test_node_without_devices_is_refused_for_that() -> None:
    ask = Ask(load_backends(plugins=[("acme", Acme())], defaults=CoreDefaults()))
    engine = Engine(Inventory(), Ledger(), ask)
    engine.inventory.set_node(node("n1"), {}, alive={})
    asking = pod(container(limits={COUNT: 1}))
    verdicts = engine.evaluate(asking, read_pod_request(asking, ask, Policies()), ["n1"])
    assert verdicts.refused == {"n1": Reason.NO_DEVICES}
