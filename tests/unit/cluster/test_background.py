"""Work that nobody waits for."""

import threading

import pytest

from hami_core_py.cluster.background import Worker


def test_things_are_done_in_the_order_they_were_taken() -> None:
    done: list[int] = []
    worker = Worker(done.append, "in order")
    assert all(worker.take(number) for number in range(100))
    worker.wait()
    assert done == list(range(100))
    worker.stop()


def test_stopping_does_what_waits_first() -> None:
    go, done = threading.Event(), []

    def work(number: int) -> None:
        go.wait(60)
        done.append(number)

    worker = Worker(work, "stopped")
    for number in range(3):
        worker.take(number)
    go.set()
    worker.stop(10)
    assert done == [0, 1, 2]


def test_failure_is_logged_and_the_next_thing_is_done(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def work(text: str) -> None:
        if not text:
            raise ValueError("nothing to do")
        done.append(text)

    worker = Worker(work, "failing")
    worker.take("")
    worker.take("second")
    worker.stop(10)
    assert done == ["second"]
    assert ("background work failed", "failing") in [(r.getMessage(), getattr(r, "worker", "")) for r in caplog.records]


def test_what_comes_beyond_the_most_that_may_wait_is_not_taken() -> None:
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(number: int) -> None:
        begun.set()
        go.wait(60)
        done.append(number)

    worker = Worker(work, "full", most=1)
    worker.take(0)
    assert begun.wait(60)
    assert (worker.take(1), worker.take(2)) == (True, False)
    go.set()
    worker.stop(10)
    assert done == [0, 1]


def test_worker_that_hangs_does_not_hold_up_the_end_for_ever() -> None:
    go = threading.Event()
    worker = Worker(lambda _: go.wait(60), "hanging")
    worker.take(None)
    worker.stop(0.05)
    go.set()
