"""Calls that hang do not take the agent with them."""

import threading

import pytest

from hami_core_py.errors import BackendError
from hami_core_py.services.agent.timed import MOST_HUNG, TimedCalls


def test_answer_and_error_of_a_call_come_through():
    calls = TimedCalls(5.0)
    assert calls.run("acme", "hook", lambda: 7) == 7
    with pytest.raises(KeyError):
        calls.run("acme", "hook", lambda: {}["x"])


def test_hanging_calls_are_given_up_and_then_refused_at_once():
    calls = TimedCalls(0.01)
    go = threading.Event()
    for _ in range(MOST_HUNG):
        with pytest.raises(BackendError, match="no answer within"):
            calls.run("acme", "hook", go.wait)
    with pytest.raises(BackendError, match="still hang"):
        calls.run("acme", "hook", lambda: 1)
    assert calls.run("other", "hook", lambda: 1) == 1
    go.set()
    for thread in threading.enumerate():
        if thread.name == "hook acme":
            thread.join()
    assert calls.run("acme", "hook", lambda: 1) == 1
