"""The programs that run are those that were asked for."""

from tests.cluster.plane import ControlPlane


def test_api_server_is_of_the_release_that_was_asked_for(fake_plane: ControlPlane) -> None:
    assert fake_plane.client.get("/version")["gitVersion"] == fake_plane.release.kubernetes
