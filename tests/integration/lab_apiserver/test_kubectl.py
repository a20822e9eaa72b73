"""Replays what kubectl was recorded to ask (see record_kubectl.py), in its order, against one cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from hami_core_py.lab.apiserver import ApiServer

from . import kubectl_scene as scene

SCENES = {"bind": scene.bind, "end": scene.end}
REQUIRED = ("get nodes,pods -A", "apply -f", "describe pod", "describe node", "delete", "get events", "logs", "drain")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with scene.scene_server(tmp_path / "log") as running:
        yield running


def recordings() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(scene.FIXTURES.glob("*.json"))]


def test_the_recordings_cover_what_people_do() -> None:
    commands = " ".join(one.get("command", "") for one in recordings())
    assert [words for words in REQUIRED if f"kubectl {words}" not in commands] == []


def test_kubectl_gets_the_answers_it_was_recorded_with(server: ApiServer) -> None:
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as http:
        for recording in recordings():
            if "scene" in recording:
                SCENES[recording["scene"]](server, "train")
                continue
            with ExitStack() as stack:
                watches = []
                for exchange in recording["exchanges"]:
                    if "scene" in exchange:
                        SCENES[exchange["scene"]](server, "train")
                        continue
                    for placeholder, uid in scene.uids(server).items():
                        exchange["path"] = exchange["path"].replace(placeholder, uid)
                    if "events" in exchange:
                        request = http.stream(exchange["method"], exchange["path"], headers=exchange["headers"])
                        watches.append((exchange, stack.enter_context(request)))
                    else:
                        replay(http, recording["command"], exchange)
                for exchange, stream in watches:
                    lines = stream.iter_lines()
                    events = [scene.stable(json.loads(next(lines))) for _ in exchange["events"]]
                    assert events == exchange["events"], recording["command"]


def replay(http: httpx.Client, command: str, exchange: dict[str, Any]) -> None:
    content = json.dumps(exchange["body"]).encode() if "body" in exchange else None
    if "body_base64" in exchange:
        content = base64.b64decode(exchange["body_base64"])
    answer = http.request(exchange["method"], exchange["path"], content=content, headers=exchange["headers"])
    where = f"{command}: {exchange['method']} {exchange['path']}"
    assert answer.status_code == exchange["status"], f"{where}: {answer.text}"
    expected = exchange.get("answer")
    if isinstance(expected, str):
        assert answer.text == expected, where
    elif expected is not None:
        got = scene.stable(answer.json())
        assert {key: got.get(key) for key in expected} == expected, where
