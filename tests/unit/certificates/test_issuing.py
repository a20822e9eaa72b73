"""An authority and what it signs, as TLS itself judges it."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hami_core_py.services.certificates.issuing import (
    Pair,
    Subject,
    belong_together,
    ends_at,
    is_for,
    issue,
    make_authority,
    must_renew,
)

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
SERVER = Subject(("hami-webhook.hami-system.svc", "127.0.0.1"), is_server=True)
CLIENT = Subject(("kube-scheduler",), is_server=False)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority("hami", NOW, 100 * DAY)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    """What the client's side says of a real handshake: empty when it succeeds."""
    here, there = socket.socketpair()

    def serve() -> None:
        with there:
            try:
                with server.wrap_socket(there, server_side=True) as speaking:
                    speaking.recv(1)
            except (ssl.SSLError, OSError):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with here, client.wrap_socket(here, server_hostname=name) as speaking:
            speaking.sendall(b"x")
            return ""
    except (ssl.SSLError, OSError) as problem:
        return str(problem)
    finally:
        thread.join()


def server_context(pair: Pair, folder: Path, client_authority: bytes | None = None) -> ssl.SSLContext:
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_authority.decode())
    return context


@pytest.mark.parametrize("name", SERVER.names)
def test_client_that_trusts_the_authority_accepts_the_server(authority: Pair, name: str, tmp_path: Path) -> None:
    pair = issue(authority, SERVER, NOW, 10 * DAY)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    assert handshake(server_context(pair, tmp_path), client, name) == ""


def test_server_of_another_name_is_refused(authority: Pair, tmp_path: Path) -> None:
    pair = issue(authority, SERVER, NOW, 10 * DAY)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    assert "mismatch" in handshake(server_context(pair, tmp_path), client, "other.svc")


def test_server_of_another_authority_is_refused(authority: Pair, tmp_path: Path) -> None:
    pair = issue(make_authority("hami", NOW, 10 * DAY), SERVER, NOW, 10 * DAY)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    assert "verify failed" in handshake(server_context(pair, tmp_path), client, SERVER.names[0])


def test_client_certificate_opens_a_server_that_demands_one(authority: Pair, tmp_path: Path) -> None:
    known = issue(authority, CLIENT, NOW, 10 * DAY)
    server = server_context(issue(authority, SERVER, NOW, 10 * DAY), tmp_path, authority.certificate)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    (tmp_path / "c.crt").write_bytes(known.certificate)
    (tmp_path / "c.key").write_bytes(known.key)
    client.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    assert handshake(server, client, SERVER.names[0]) == ""


def test_certificate_never_outlives_its_authority(authority: Pair) -> None:
    assert ends_at(issue(authority, SERVER, NOW, 1000 * DAY).certificate) == ends_at(authority.certificate)


def test_certificate_is_renewed_when_a_third_of_its_life_is_left(authority: Pair) -> None:
    certificate = issue(authority, SERVER, NOW, 90 * DAY).certificate
    assert not must_renew(certificate, NOW + 59 * DAY)
    assert must_renew(certificate, NOW + 61 * DAY)


def test_certificate_of_the_future_is_renewed(authority: Pair) -> None:
    assert must_renew(issue(authority, SERVER, NOW, 90 * DAY).certificate, NOW - DAY)


def test_what_is_no_certificate_is_renewed() -> None:
    assert must_renew(b"nonsense", NOW)
    assert ends_at(b"nonsense") is None


def test_certificate_is_for_its_own_subject_alone(authority: Pair) -> None:
    pair = issue(authority, SERVER, NOW, 10 * DAY)
    assert is_for(pair, SERVER, authority)
    assert not is_for(pair, Subject(("hami-webhook.other.svc",), is_server=True), authority)
    assert not is_for(pair, SERVER, make_authority("hami", NOW, 10 * DAY))


def test_key_of_another_certificate_is_noticed(authority: Pair) -> None:
    one, other = issue(authority, SERVER, NOW, DAY), issue(authority, SERVER, NOW, DAY)
    assert belong_together(one)
    assert not belong_together(Pair(one.certificate, other.key))
    assert not belong_together(Pair(one.certificate, b"nonsense"))
