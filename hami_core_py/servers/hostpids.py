"""A socket in every container's folder that tells a process its pid on the host, which it cannot see from its own namespace.

The kernel names the peer of a connection, so the answer cannot be forged and nothing is asked. What a container does with its
folder harms nobody but itself: names in it are replaced, never followed, and nobody is waited for.
"""

import contextlib
import errno
import logging
import os
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.services.agent.holdings import SHARED, Holdings

log = logging.getLogger(__name__)

SOCKET = "agent.sock"
"""Name of the socket in a container's ``shared`` folder."""
FIRST_NAMESPACE = "pid:[4026531836]"
"""What the kernel calls the host's own pid namespace."""
BACKLOG = 512
"""Processes of one container that may ask at the same moment; further ones wait for a moment, then do without."""
TURN = 32
"""Answers to one container before the others have their turn."""
PAUSE_SECONDS = 0.002
"""Rest after a round in which a container used up its turn: whoever asks without end costs little."""
SWEEP_SECONDS = 10.0
"""How often all folders are looked at: another agent may have ended that listened in some, or a socket could not be made."""
_BESIDE = f".{SOCKET}"
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class _Listener:
    """A listening socket, and which file it was given."""

    listener: socket.socket
    file: tuple[int, int]

    def is_at(self, place: Path) -> bool:
        try:
            there = place.lstat()
        except OSError:
            return False
        return self.file == (there.st_dev, there.st_ino)


class HostPids:
    """Listens in the folders of all containers, on one thread.

    :param holdings: tells which folders there are, and of each that comes and goes.
    :param proc: the proc file system; where this process is not in the host's pid namespace, nothing is served, for the
        numbers it would tell are not the host's.
    """

    def __init__(self, holdings: Holdings, proc: Path = Path("/proc"), *, sweep_seconds: float = SWEEP_SECONDS) -> None:
        self._holdings, self._sweep_seconds = holdings, sweep_seconds
        self._is_able = _namespace(proc) == FIRST_NAMESPACE
        self._lock = threading.Lock()
        self._listeners: dict[str, _Listener] = {}
        self._selector = selectors.DefaultSelector()
        self._stopped = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="host pids", daemon=True)

    def start(self) -> None:
        """Begin; folders that an earlier run has left are served at once, new ones as soon as they are there."""
        if not self._is_able:
            log.info("containers are not told their host pids: this process is not in the host's pid namespace")
            return
        self._thread.start()
        self._holdings.watch(self.tend)

    def stop(self) -> None:
        """Stop listening; the sockets that are still ours go."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._wake.send(b"x")
        if self._thread.is_alive():
            self._thread.join(2.0)
        with self._lock:
            for name in list(self._listeners):
                self._close(name)
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def tend(self, name: str) -> None:
        """Listen in the folder of a name if it is there, no longer if it is not; nothing is done while all is well."""
        place = self._holdings.directory(name) / SHARED / SOCKET
        with self._lock:
            if self._stopped.is_set():
                return
            known = self._listeners.get(name)
            if known is not None and known.is_at(place):
                return
            if known is None and _is_served(place):
                return
            self._close(name)
            try:
                listener = _listen(place)
            except FileNotFoundError:
                return
            except OSError as problem:
                log.warning("no socket for host pids", extra={"path": str(place), "problem": str(problem)})
                return
            self._listeners[name] = listener
            self._selector.register(listener.listener, selectors.EVENT_READ)

    def _close(self, name: str) -> None:
        listener = self._listeners.pop(name, None)
        if listener is None:
            return
        place = self._holdings.directory(name) / SHARED / SOCKET
        with contextlib.suppress(OSError):
            if listener.is_at(place):
                place.unlink()
        self._selector.unregister(listener.listener)
        listener.listener.close()

    def _run(self) -> None:
        swept = time.monotonic()
        while not self._stopped.is_set():
            ready = self._selector.select(self._sweep_seconds)
            if time.monotonic() - swept >= self._sweep_seconds:
                for holding in self._holdings.all():
                    self.tend(holding.name)
                swept = time.monotonic()
            is_busy = False
            with self._lock:
                for key, _ in ready:
                    listener = key.fileobj
                    # It may have been closed since.
                    if isinstance(listener, socket.socket) and listener is not self._woken and listener.fileno() >= 0:
                        is_busy |= _answer(listener) == TURN
            if is_busy:
                self._stopped.wait(PAUSE_SECONDS)


def _namespace(proc: Path) -> str:
    try:
        return str((proc / "self" / "ns" / "pid").readlink())
    except OSError:
        return ""


def _is_served(place: Path) -> bool:
    """Somebody listens there: another agent of this node, whose container it is. Who pretends to, in its own folder, has
    only itself told nothing."""
    try:
        at = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as peer:
            return peer.connect_ex(f"/proc/self/fd/{at}") in (0, errno.EAGAIN)
    finally:
        os.close(at)


def _listen(place: Path) -> _Listener:
    """A listener at this place, whatever lay there. :raises OSError: it cannot be had."""
    folder = place.parent.parent
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        # Made where no container can reach it and then moved: neither a link put in its place nor a long path matters.
        at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            beside = f"/proc/self/fd/{at}/{_BESIDE}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
            listener.bind(beside)
            os.chmod(beside, 0o666)  # noqa: S103 - any user of the container may ask
            file = os.stat(beside)
            listener.listen(BACKLOG)
            os.rename(_BESIDE, f"{place.parent.name}/{place.name}", src_dir_fd=at, dst_dir_fd=at)
        finally:
            os.close(at)
    except BaseException:
        listener.close()
        raise
    return _Listener(listener, (file.st_dev, file.st_ino))


def _answer(listener: socket.socket) -> int:
    """Tell as many peers as have a turn who they are. :returns: how many."""
    for count in range(TURN):
        try:
            peer, _ = listener.accept()
        except OSError:
            return count
        with peer, contextlib.suppress(OSError):
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, _, _ = _CREDENTIALS.unpack(credentials)
            peer.send(f"{pid}\n".encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    return TURN
