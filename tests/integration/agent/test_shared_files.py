"""Books of the limits that a container takes out of the directory it shares with the agent."""

import pytest


@pytest.fixture
def books(world):
    """The first plain file of a running container, which the agent has seen."""
    world.start()
    pod = world.pod("p", {"main": [(world.npu(0), world.share(1000))]}, at_ns=1)
    world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::0"])
    world.kubelet.prestart(["npu-0::0"])
    (directory,) = (world.state / "containers").iterdir()
    found = directory / "shared" / "books"
    found.write_bytes(b"x")
    world.eventually("the file to be seen", lambda: "books" in world.agent._shared._seen.get(directory.name, {}))
    return found


def told(world):
    return world.events("SharedFileRemoved")


def test_file_that_is_written_to_is_no_news_and_one_that_is_removed_is(world, books):
    books.write_bytes(b"xyz")
    world.agent._shared.look()
    assert told(world) == []
    books.unlink()
    (message,) = world.eventually("an event", lambda: told(world))
    assert "container 'main' has removed or replaced books" in message


def test_file_that_is_replaced_is_told_once(world, books):
    for text in (b"a", b"b"):
        other = books.with_name("other")
        other.write_bytes(text)
        other.replace(books)
        world.eventually("an event", lambda: told(world))
        world.agent._shared.look()
    assert len(told(world)) == 1


def test_link_in_its_place_is_not_followed(world, books, tmp_path):
    books.unlink()
    books.symlink_to(tmp_path)
    world.eventually("an event", lambda: told(world))


def test_flood_of_files_costs_no_more_than_a_few(world, books):
    for number in range(200):
        (books.parent / f"file-{number}").touch()
    for _ in range(3):
        world.agent._shared.look()
    assert len(world.agent._shared._seen[books.parents[1].name]) <= 2 * 16
