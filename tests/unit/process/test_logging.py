"""What our processes write to standard error."""

import json
import logging
from datetime import datetime, timedelta

import pytest

from hami_core_py.process import configure_logging


def test_line_is_an_object_with_utc_time_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    logging.getLogger("acme").info("bound", extra={"node": "n1", "color_message": "\x1b[36mbound"})
    line = json.loads(capsys.readouterr().err)
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {"level": "INFO", "logger": "acme", "message": "bound", "node": "n1"}


def test_text_for_people_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "text")
    logging.getLogger("acme").info("not worth saying")
    logging.getLogger("acme").warning("low on memory")
    written = capsys.readouterr().err
    assert written.endswith(" WARNING acme: low on memory\n")
    assert written.count("\n") == 1
