"""``hami scheduler`` as a process of its own."""

import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from hami_core_py.cli import main
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from tests.integration.scheduler.certificates import Authority
from tests.integration.scheduler.world import eventually

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(api: ApiServer, tmp_path: Path) -> Iterator[Run]:
    """Starts ``hami scheduler`` with options; all are ended at the end."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "hami_core_py", "scheduler", "--kubeconfig", str(kubeconfig), *options]
        log = (tmp_path / "log").open("w")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ})
        log.close()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_process_becomes_ready_answers_and_ends_cleanly(run: Run) -> None:
    process = run("--listen", "127.0.0.1:0", "--plain-http", "--node-policy", "spread")
    url = first_line(process)

    eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200, "it is ready")
    pod = {"metadata": {"name": "a", "uid": "u"}, "spec": {"containers": []}}
    answer = httpx.post(f"{url}/filter", json={"Pod": pod, "NodeNames": ["n1"]}).json()
    assert answer["NodeNames"] == ["n1"]
    assert httpx.get(f"{url}/healthz").text == "ok\n"
    assert "process_resident_memory_bytes" in httpx.get(f"{url}/metrics").text
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0


def test_probes_and_metrics_have_a_port_without_the_extender(run: Run) -> None:
    process = run("--listen", "127.0.0.1:0", "--plain-http", "--metrics-listen", "127.0.0.1:0")
    extender, beside = first_line(process), first_line(process)

    eventually(lambda: httpx.get(f"{beside}/readyz").status_code == 200, "it is ready")

    assert extender != beside
    assert "process_resident_memory_bytes" in httpx.get(f"{beside}/metrics").text
    assert httpx.post(f"{beside}/bind", json={}).status_code == 404


def test_without_an_api_server_it_lives_and_says_what_is_missing(run: Run, api: ApiServer) -> None:
    api.stop()
    url = first_line(run("--listen", "127.0.0.1:0", "--plain-http"))

    answer = httpx.get(f"{url}/readyz")

    assert answer.status_code == 503
    assert "have not been read yet" in answer.text
    assert httpx.get(f"{url}/healthz").status_code == 200
    api.start()
    eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200, "it is ready once the API server is there")


def test_stranger_without_a_certificate_is_turned_away(run: Run, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("extender")
    files = {"--tls-cert": certificate, "--tls-key": key, "--client-ca": authority.file}
    url = first_line(run("--listen", "127.0.0.1:0", *(str(word) for pair in files.items() for word in pair)))
    context = ssl.create_default_context(cafile=str(authority.file))

    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/healthz", context=context).read()

    context.load_cert_chain(*authority.issue("kube-scheduler"))
    assert urllib.request.urlopen(f"{url}/healthz", context=context).read() == b"ok\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--listen", "127.0.0.1:0"), "either --plain-http, or --tls-cert"),
        (("--listen", "0.0.0.0:0", "--plain-http"), "on loopback only"),
        (("--listen", "nowhere", "--plain-http"), "expected ADDRESS:PORT"),
        (("--listen", "127.0.0.1:0", "--plain-http", "--device-policy", "pack"), "pack"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_sentence(options: tuple[str, ...], says: str) -> None:
    answer = CliRunner().invoke(main, ["scheduler", *options])

    assert answer.exit_code == 2
    assert says in answer.output
