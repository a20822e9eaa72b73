"""Certificates are kept in the Secrets and the webhook configuration of an API server."""

import base64
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import Conflict, NotFound
from hami_core_py.cluster.secrets import read_secret, secret_path, write_secret
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.services.certificates.issuing import Pair, Subject, is_for
from hami_core_py.services.certificates.keeping import Keeper, Wanted

NAMESPACE = "hami-system"
SERVER = Subject(("hami-webhook.hami-system.svc",), is_server=True)
CLIENT = Subject(("kube-scheduler",), is_server=False)
DAY = timedelta(days=1)
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def kubeconfig(api: ApiServer, tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path / "kubeconfig", api.url)


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[Client]:
    client = Client.from_kubeconfig(kubeconfig, timeout_seconds=3.0)
    client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for name in ("authority", "webhook-tls", "client-tls"):
        client.create(
            f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": name, "labels": {"by": "chart"}}}
        )
    where = {"url": "https://127.0.0.1:8443/webhook"}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    hook = {"clientConfig": where, "rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    client.create(HOOKS, {"metadata": {"name": "hami"}, "webhooks": [{**hook, "name": "a.hami.io"}]})
    yield client
    client.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(client: Client, clock: Clock) -> Keeper:
    wanted = Wanted(
        namespace=NAMESPACE,
        authority="authority",
        leaves={"webhook-tls": SERVER, "client-tls": CLIENT},
        webhooks=("hami",),
        lifetime=90 * DAY,
        authority_lifetime=1000 * DAY,
    )
    return Keeper(client, wanted, clock=clock)


def data(client: Client, name: str) -> dict[str, bytes]:
    return read_secret(client, NAMESPACE, name)[0]


def trusted(client: Client) -> list[x509.Certificate]:
    hook = client.get(f"{HOOKS}/hami")["webhooks"][0]
    return x509.load_pem_x509_certificates(base64.b64decode(hook["clientConfig"]["caBundle"]))


def authority_of(client: Client) -> Pair:
    return Pair(data(client, "authority")["ca.crt"], data(client, "authority")["ca.key"])


def leaf(client: Client, name: str) -> Pair:
    return Pair(data(client, name)["tls.crt"], data(client, name)["tls.key"])


def test_empty_secrets_are_filled_and_the_api_server_is_told(client: Client, keeper: Keeper) -> None:
    assert keeper.keep() == ("authority", "hami", "client-tls", "webhook-tls")
    assert is_for(leaf(client, "webhook-tls"), SERVER, authority_of(client))
    assert is_for(leaf(client, "client-tls"), CLIENT, authority_of(client))
    assert trusted(client) == [x509.load_pem_x509_certificate(authority_of(client).certificate)]
    assert data(client, "webhook-tls")["ca.crt"] == authority_of(client).certificate


def test_second_pass_changes_nothing(keeper: Keeper) -> None:
    keeper.keep()
    assert keeper.keep() == ()


def test_key_of_the_authority_is_in_its_own_secret_alone(client: Client, keeper: Keeper) -> None:
    keeper.keep()
    assert set(data(client, "webhook-tls")) == {"tls.crt", "tls.key", "ca.crt"}


def test_certificate_near_its_end_is_renewed_by_the_same_authority(
    client: Client, keeper: Keeper, clock: Clock
) -> None:
    keeper.keep()
    before, authority = leaf(client, "webhook-tls"), authority_of(client)
    clock.now += 61 * DAY
    assert keeper.keep() == ("webhook-tls",)
    assert leaf(client, "webhook-tls") != before
    assert authority_of(client) == authority


def test_old_authority_is_trusted_beside_the_new_one_until_it_ends(
    client: Client, keeper: Keeper, clock: Clock
) -> None:
    keeper.keep()
    old = x509.load_pem_x509_certificate(authority_of(client).certificate)
    clock.now += 700 * DAY
    keeper.keep()
    new = x509.load_pem_x509_certificate(authority_of(client).certificate)
    assert trusted(client) == [new, old]
    assert is_for(leaf(client, "webhook-tls"), SERVER, authority_of(client))
    clock.now += 301 * DAY
    keeper.keep()
    assert trusted(client) == [new]


def test_api_server_learns_of_a_new_authority_before_a_certificate_of_it_is_in_use(
    keeper: Keeper, clock: Clock
) -> None:
    keeper.keep()
    clock.now += 700 * DAY
    order = keeper.keep()
    assert order.index("hami") < order.index("webhook-tls")


@pytest.mark.parametrize("spoilt", [{"tls.crt": b"nonsense"}, {"tls.key": None}, {"ca.crt": b"other"}])
def test_spoilt_secret_is_mended(client: Client, keeper: Keeper, spoilt: dict[str, bytes | None]) -> None:
    keeper.keep()
    version = read_secret(client, NAMESPACE, "webhook-tls")[1]
    write_secret(client, NAMESPACE, "webhook-tls", spoilt, resource_version=version)
    assert keeper.keep() == ("webhook-tls",)
    assert is_for(leaf(client, "webhook-tls"), SERVER, authority_of(client))
    assert data(client, "webhook-tls")["ca.crt"] == authority_of(client).certificate


def test_emptied_bundle_is_written_again(client: Client, keeper: Keeper) -> None:
    keeper.keep()
    found = client.get(f"{HOOKS}/hami")
    del found["webhooks"][0]["clientConfig"]["caBundle"]
    client.replace(f"{HOOKS}/hami", found)
    assert keeper.keep() == ("hami",)


def test_what_the_chart_wrote_into_a_secret_stays(client: Client, keeper: Keeper) -> None:
    keeper.keep()
    assert client.get(secret_path(NAMESPACE, "authority"))["metadata"]["labels"] == {"by": "chart"}


def test_secret_that_changed_since_it_was_read_is_not_overwritten(client: Client) -> None:
    version = read_secret(client, NAMESPACE, "authority")[1]
    write_secret(client, NAMESPACE, "authority", {"a": b"1"}, resource_version=version)
    with pytest.raises(Conflict):
        write_secret(client, NAMESPACE, "authority", {"a": b"2"}, resource_version=version)
    assert data(client, "authority") == {"a": b"1"}


def test_missing_secret_is_an_error_and_the_webhook_learns_nothing_wrong(client: Client, keeper: Keeper) -> None:
    client.delete(secret_path(NAMESPACE, "authority"))
    with pytest.raises(NotFound):
        keeper.keep()
    assert "caBundle" not in client.get(f"{HOOKS}/hami")["webhooks"][0]["clientConfig"]


def arguments(kubeconfig: Path, *more: str) -> list[str]:
    said: list[Any] = [sys.executable, "-m", "hami_core_py", "certificates", "--kubeconfig", kubeconfig]
    said += ["--namespace", NAMESPACE, "--authority", "authority", "--webhook", "hami"]
    return [
        *map(str, said),
        "--server",
        f"webhook-tls={SERVER.names[0]}",
        "--client",
        "client-tls=kube-scheduler",
        *more,
    ]


def test_process_keeps_certificates_until_it_is_told_to_end(client: Client, kubeconfig: Path) -> None:
    process = subprocess.Popen(
        arguments(kubeconfig, "--listen", "127.0.0.1:0", "--check-seconds", "0.1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    try:
        url = process.stdout.readline().strip()
        while httpx.get(f"{url}/readyz").status_code != 200:
            assert process.poll() is None
        assert is_for(leaf(client, "webhook-tls"), SERVER, authority_of(client))
        assert 'hami_certificate_end_timestamp_seconds{secret="webhook-tls"}' in httpx.get(f"{url}/metrics").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_one_pass_says_what_is_missing(client: Client, kubeconfig: Path) -> None:
    client.delete(secret_path(NAMESPACE, "webhook-tls"))
    ended = subprocess.run(arguments(kubeconfig, "--once"), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "webhook-tls" in ended.stderr.splitlines()[-1]
