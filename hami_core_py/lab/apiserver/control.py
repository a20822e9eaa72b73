"""The laboratory's own paths below `/lab/`: faults, compaction, and the end of all watches.

| request | effect |
|---|---|
| `GET /lab/faults` | the faults in force |
| `POST /lab/faults` | one more, with the fields of `faults.Fault`; answers its `id` |
| `DELETE /lab/faults`, `DELETE /lab/faults/<id>` | all of them gone, or one |
| `POST /lab/compact` | history expires: older resourceVersions answer 410 |
| `POST /lab/end-watches` | every open watch is closed; with `{"expired": true}` after a 410 |
"""

from __future__ import annotations

from typing import Protocol

import orjson
from starlette.responses import Response

from hami_core_py.lab.apiserver.answers import json_answer
from hami_core_py.lab.apiserver.faults import Faults, fault_from_json
from hami_core_py.lab.apiserver.requests import decode_object
from hami_core_py.lab.apiserver.status import method_not_allowed, no_such_path
from hami_core_py.lab.apiserver.store import Store


class EndWatches(Protocol):
    def __call__(self, *, is_expired: bool) -> int: ...


class Control:
    def __init__(self, store: Store, faults: Faults, end_watches: EndWatches) -> None:
        self._store = store
        self._faults = faults
        self._end_watches = end_watches

    def answer(self, method: str, path: str, body: bytes) -> Response:
        """:raises StatusError: 400, 404 or 405."""
        match path.strip("/").split("/")[1:], method:
            case ["faults"], "GET":
                return json_answer({"faults": [fault.as_json() for fault in self._faults.all()]})
            case ["faults"], "POST":
                number = self._faults.add(fault_from_json(decode_object(body, "")))
                return json_answer({"id": number}, code=201)
            case ["faults"], "DELETE":
                self._faults.clear()
                return json_answer({})
            case ["faults", number], "DELETE":
                if not number.isdigit() or not self._faults.remove(int(number)):
                    raise no_such_path()
                return json_answer({})
            case ["compact"], "POST":
                return json_answer({"resourceVersion": str(self._store.compact())})
            case ["end-watches"], "POST":
                is_expired = bool(orjson.loads(body or b"{}").get("expired"))
                return json_answer({"ended": self._end_watches(is_expired=is_expired)})
            case ["faults" | "compact" | "end-watches"], _:
                raise method_not_allowed()
        raise no_such_path()
