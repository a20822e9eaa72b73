"""Records what kubectl asks, into tests/fixtures/kubectl. Run it again when kubectl or the scene changes:

python -m tests.integration.lab_apiserver.record_kubectl PATH-TO-KUBECTL
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hami_core_py.lab.apiserver import write_kubeconfig

from . import kubectl_scene as scene

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "annotations": {"note": "one"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "resources": {"limits": {"acme.example/gpu": "1", "acme.example/mem": "4k"}},
            }
        ]
    },
}
CHANGED = {**POD, "metadata": {"name": "train", "annotations": {"note": "two", "more": "yes"}}}
STEPS: list[tuple[str, str]] = [
    ("get-all", "get nodes,pods -A"),
    ("apply-create", "apply -f pod.json"),
    ("bind", ""),
    ("apply-same", "apply -f pod.json"),
    ("apply-change", "apply -f changed.json"),
    ("get-wide", "get pods -o wide"),
    ("get-yaml", "get pod train -o yaml"),
    ("get-missing", "get pod ghost"),
    ("describe-pod", "describe pod train"),
    ("describe-node", "describe node node-a"),
    ("get-events", "get events"),
    ("logs", "logs train"),
    ("annotate", "annotate pod train who=me"),
    ("label", "label pod train app=web"),
    ("cordon", "cordon node-a"),
    ("uncordon", "uncordon node-a"),
    ("delete-wait", "delete pod train --wait"),
    ("apply-server-side", "apply --server-side -f pod.json"),
    ("delete", "delete pod train --wait=false"),
    ("create", "create -f pod.json"),
    ("bind-again", ""),
    ("drain", "drain node-a --force"),
    ("create-namespace", "create namespace team"),
    ("delete-namespace", "delete namespace team"),
]
ENDS_AFTER = {"delete-wait": "watch=true", "drain": "/eviction"}  # the request after which a kubelet ends the pod
KEPT_HEADERS = ("accept", "content-type")
LONG = ("APIResourceList", "APIGroupList", "APIVersions")  # what discovery says is tested elsewhere


@dataclass
class Recorder:
    """A proxy in front of the server that writes down what passes."""

    port: int
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    marker: str = ""  # part of a path; `marked` is set when such a request has been answered
    marked: threading.Event = field(default_factory=threading.Event)

    def handler(recorder) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                exchange: dict[str, Any] = {"method": self.command, "path": self.path}
                exchange["headers"] = {key: self.headers[key] for key in KEPT_HEADERS if self.headers[key]}
                if body.startswith(b"{"):
                    exchange["body"] = json.loads(body)
                elif body:
                    exchange["body_base64"] = base64.b64encode(body).decode()
                recorder.exchanges.append(exchange)
                upstream = http.client.HTTPConnection("127.0.0.1", recorder.port)
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                exchange["status"] = answer.status
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                if "watch=true" in self.path:
                    self._stream(answer, exchange)
                    return
                content = answer.read()
                exchange["answer"] = json.loads(content) if content.startswith(b"{") else content.decode()
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self._mark()
                self.wfile.write(content)

            def _stream(self, answer: http.client.HTTPResponse, exchange: dict[str, Any]) -> None:
                exchange["events"] = []
                self.send_header("Connection", "close")
                self.end_headers()
                self._mark()
                self.close_connection = True
                with suppress(BrokenPipeError):  # kubectl has seen enough
                    while line := answer.readline():
                        exchange["events"].append(json.loads(line))
                        self.wfile.write(line)
                        self.wfile.flush()

            def _mark(self) -> None:
                if recorder.marker and recorder.marker in self.path:
                    recorder.marked.set()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def main(kubectl: str) -> None:
    version = json.loads(subprocess.check_output([kubectl, "version", "--client", "-o", "json"]))
    for old in scene.FIXTURES.glob("*.json"):
        old.unlink()
    scene.FIXTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "pod.json").write_text(json.dumps(POD))
        (directory / "changed.json").write_text(json.dumps(CHANGED))
        with scene.scene_server(directory / "log") as server:
            recorder = Recorder(server.port)
            proxy = ThreadingHTTPServer(("127.0.0.1", 0), recorder.handler())
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            write_kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{proxy.server_address[1]}")
            environment = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig"), "HOME": folder}
            environment |= {"KUBECTL_CLIENT_VERSION": "", "NO_PROXY": "*"}
            for number, (name, command) in enumerate(STEPS):
                recorder.exchanges.clear()
                recorder.marked.clear()
                recorder.marker = ENDS_AFTER.get(name, "")
                if not command:
                    scene.bind(server, "train")
                    _write(number, name, {"scene": "bind"})
                    continue
                known = scene.uids(server)
                process = subprocess.Popen([kubectl, *command.split()], cwd=directory, env=environment)
                if recorder.marker:
                    recorder.marked.wait(20)
                    recorder.exchanges.append({"scene": "end"})
                    scene.end(server, "train")
                process.wait(30)
                content = {"command": f"kubectl {command}", "version": version["clientVersion"]["gitVersion"]}
                _write(number, name, {**content, "exchanges": [_essential(one, known) for one in recorder.exchanges]})
            proxy.shutdown()


def _write(number: int, name: str, content: dict[str, Any]) -> None:
    path = scene.FIXTURES / f"{number:02}-{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")


def _essential(exchange: dict[str, Any], uids: dict[str, str]) -> dict[str, Any]:
    """An exchange without what shifts from run to run, nor the long documents of discovery."""
    if "path" not in exchange:
        return exchange
    exchange = scene.stable(exchange)
    for placeholder, uid in uids.items():
        exchange["path"] = exchange["path"].replace(uid, placeholder)
    answer = exchange.get("answer")
    if isinstance(answer, dict) and answer.get("kind") in LONG:
        exchange["answer"] = {"kind": answer["kind"]}
    elif exchange["path"].startswith("/openapi/"):
        del exchange["answer"]
    return exchange


if __name__ == "__main__":
    main(sys.argv[1])
