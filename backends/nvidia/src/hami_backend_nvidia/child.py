"""Running the probe as a child that is given up when it does not answer."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from hami_core_py.errors import HamiError

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "hami_backend_nvidia.probe")


class DriverError(HamiError):
    """The driver is there and does not answer, or answers that it is broken."""


def ask(question: str, timeout_seconds: float) -> Mapping[str, Any] | None:
    """The probe's answer; ``None`` where there is no driver. :raises DriverError: no answer that can be used."""
    try:
        child = subprocess.run(  # noqa: S603 - our own module, no shell
            [*COMMAND, question], capture_output=True, timeout=timeout_seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as problem:
        raise DriverError(f"the driver did not answer within {timeout_seconds:g} s") from problem
    lines = child.stdout.splitlines()
    if child.returncode or not lines:
        errors = child.stderr.decode("utf-8", "replace").strip().splitlines()
        last = errors[-1] if errors else "no message"
        raise DriverError(f"the probe ended with code {child.returncode}: {last}")
    answer: Mapping[str, Any] = json.loads(lines[-1])
    if answer.get("absent"):
        return None
    if "problem" in answer:
        raise DriverError(f"the driver does not start: {answer['problem']}")
    return answer
