"""Certificates that are renewed while a server runs: new connections use the new files, open ones keep theirs."""

import logging
import ssl
import threading
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""How often the files are looked at; renewals come weeks before the end, so nothing is gained by haste."""

State = tuple[tuple[int, int, int], ...]


class CertificateReloader:
    """Loads a certificate and key into a running TLS context whenever the files change.

    A pair that does not load, such as one that is half written, leaves the old one in use and is tried again.
    """

    def __init__(
        self, context: ssl.SSLContext, certificate: Path, key: Path | None, *, check_seconds: float = CHECK_SECONDS
    ) -> None:
        self._context, self._certificate, self._key = context, certificate, key
        self._check_seconds = check_seconds
        self._loaded = self._state()
        self._failed: State | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def start(self) -> None:
        """Begin to look at the files."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, and wait for that."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def reload(self) -> bool:
        """Load the files if they changed. :returns: whether they were loaded."""
        try:
            state = self._state()
            if state == self._loaded:
                return False
            # The running context would keep a new certificate beside the old key if the new key did not load.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
            self._context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as problem:
            self._say(problem)
            return False
        self._loaded, self._failed = state, None
        log.info("certificate reloaded", extra={"certificate": str(self._certificate)})
        return True

    def _say(self, problem: Exception) -> None:
        """Warn once per state of the files."""
        try:
            state = self._state()
        except OSError:
            state = ()
        if state != self._failed:
            self._failed = state
            log.warning(
                "certificate not reloaded; the old one stays in use",
                extra={"certificate": str(self._certificate), "problem": str(problem)},
            )

    def _state(self) -> State:
        """What tells one version of the files from another; links, as mounted secrets are, are followed."""
        found = (path.stat() for path in (self._certificate, self._key) if path is not None)
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)

    def _run(self) -> None:
        while not self._stopped.wait(self._check_seconds):
            self.reload()
