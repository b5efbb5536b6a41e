"""Signals are acknowledged, and only Ctrl-C pressed three times discards work."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from regard.train.signals import Stopped, StopRequested, restore_signals, stop_signals


@pytest.fixture(autouse=True)
def _default_signals() -> Iterator[None]:
    """Let the tests run under nohup too, which ignores SIGHUP, and restore what they change."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_acknowledged_and_requests_a_stop(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    with stop_signals() as stop:
        stop.check()
        os.kill(os.getpid(), number)
        assert stop and stop.signal_number == number
        with pytest.raises(StopRequested):
            stop.check()
    assert "saving a checkpoint" in capfd.readouterr().err


def test_a_second_ctrl_c_does_not_discard_the_work_but_a_third_does(capfd: pytest.CaptureFixture[str]) -> None:
    with stop_signals() as stop, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.interrupts == 2
        assert "Ctrl-C once more" in capfd.readouterr().err
        os.kill(os.getpid(), signal.SIGINT)


def test_repeated_sigterm_never_discards_the_work() -> None:
    with stop_signals() as stop:
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal_number == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_repeated_after_the_run_has_stopped_does_not_kill_the_process(number: int) -> None:
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # a process in the background may ignore Ctrl-C
    with pytest.raises(Stopped), stop_signals():
        os.kill(os.getpid(), number)
        raise Stopped(number, 0)
    assert signal.getsignal(number) is signal.SIG_IGN
    restore_signals()
    assert signal.getsignal(number) is usual, "in a process that goes on, it acts as usual"
    signal.signal(number, before)


def test_a_run_that_was_not_stopped_restores_the_signals() -> None:
    with stop_signals():
        pass
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_under_nohup_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_training_may_run_in_another_thread() -> None:
    requests = []

    def run() -> None:
        with stop_signals() as stop:
            requests.append(stop)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(requests) == 1
