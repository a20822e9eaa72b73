"""How full a node is."""

from hami_core_py.decisions.score import fullness, fullness_of_sums
from hami_core_py.testing.builders import device, usage


def test_overcommitted_node_counts_as_full() -> None:
    one = device("npu-0")
    used = {one.id: usage(slots=20, memory_mib=2 * one.memory_mib, core_units=200)}
    assert fullness([one], used) == 1.0
    assert fullness_of_sums(20, 10, 200, 100, 2, 1) == 2.0


def test_node_that_lacks_memory_altogether_is_empty() -> None:
    one = device("npu-0", memory_mib=0)
    assert fullness([one], {one.id: usage(slots=5, core_units=50)}) == 0.0
