"""What every process of ours does first and last: set up its log, and wait for the signal to end."""

import logging
import signal
import sys
import threading

from pythonjsonlogger.json import JsonFormatter


def configure_logging(level: str = "info", form: str = "json") -> None:
    """Log to standard error, one JSON object a line with UTC time, or plain text for people."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        names = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(
            JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=names, timestamp=False)
        )
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set; call it from the main thread."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped
