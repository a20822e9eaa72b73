"""What every process of ours does first and last: set up its log, and wait for the signal to end."""

import logging
import signal
import sys
import threading

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

UNSAID = (*RESERVED_ATTRS, "color_message")
"""Fields of a log record that are left out; the last is uvicorn's message once more, for a terminal."""


def configure_logging(level: str = "info", form: str = "json") -> None:
    """Log to standard error, one JSON object a line with UTC time, or plain text for people."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        names = {"levelname": "level", "name": "logger"}
        form = "%(levelname)s %(name)s %(message)s"
        handler.setFormatter(JsonFormatter(form, rename_fields=names, timestamp="time", reserved_attrs=UNSAID))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set; call it from the main thread."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped
