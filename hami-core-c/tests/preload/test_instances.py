"""An instance of a cut card is a device of its own to the limiter."""

import json
from collections.abc import Callable

from .conftest import MIB, Container, Node

Make = Callable[..., Container]


def test_a_limit_on_an_instance_holds(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G")
    node.sim("mig", "0", "on")
    uuid = json.loads(node.sim("mig", "create", "0", "2g.10gb"))["uuid"]
    other = json.loads(node.sim("mig", "create", "0", "1g.5gb"))["uuid"]
    one = make_container(node, "tenant")
    one.limits(f"{uuid} memory={1408 * MIB} context={408 * MIB}", f"{other} memory={708 * MIB} context={408 * MIB}")
    program = one.run(CUDA_VISIBLE_DEVICES=uuid)
    assert program("alloc 0 900") == 0
    assert program("alloc 1 200") == 2
    small = one.run(CUDA_VISIBLE_DEVICES=other)
    assert small("alloc 0 200") == 0
    assert small("alloc 1 200") == 2
