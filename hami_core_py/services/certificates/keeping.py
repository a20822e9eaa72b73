"""Keeps the certificates of an installation as they should be.

Every pass looks at what is there and mends what is not as it should be, so that a pass that was cut short, a Secret that
somebody emptied or a second process do no harm. Whoever checks a certificate learns of a new authority before the first
certificate that it signed is in use, and knows the old one until that has ended.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.secrets import read_secret, write_secret
from hami_core_py.cluster.webhooks import trust_authority
from hami_core_py.services.certificates.issuing import (
    Pair,
    Subject,
    belong_together,
    ends_at,
    is_for,
    issue,
    make_authority,
    must_renew,
)

log = logging.getLogger(__name__)

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITY: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
PREVIOUS: Final = "previous.crt"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What there should be.

    :ivar authority: Secret that holds the authority. :ivar leaves: Secret → whom its certificate is for.
    :ivar webhooks: mutating webhook configurations whose API server checks our server certificates.
    :ivar lifetime: of servers' certificates; clients' hold as long as their authority.
    """

    namespace: str
    authority: str
    leaves: Mapping[str, Subject] = field(default_factory=dict)
    webhooks: tuple[str, ...] = ()
    lifetime: timedelta = timedelta(days=90)
    authority_lifetime: timedelta = timedelta(days=1825)


class Keeper:
    """Keeps one installation's certificates.

    :param clock: answers UTC now.
    """

    def __init__(
        self, client: Client, wanted: Wanted, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.wanted = wanted
        self.ends: dict[str, datetime] = {}
        """Secret → end of its certificate, as the last pass left it."""
        self._client, self._clock = client, clock

    def keep(self) -> tuple[str, ...]:
        """One pass. :returns: names of the objects that were written. :raises ApiError: mended as far as possible; try again."""
        now = self._clock()
        written: list[str] = []
        authority, trusted = self._authority(now, written)
        for webhook in self.wanted.webhooks:
            if trust_authority(self._client, webhook, trusted):
                written.append(webhook)
        for name, subject in sorted(self.wanted.leaves.items()):
            self._leaf(name, subject, authority, trusted, now, written)
        if written:
            log.info("certificates kept", extra={"written": written})
        return tuple(written)

    def _authority(self, now: datetime, written: list[str]) -> tuple[Pair, bytes]:
        """The authority that signs, and the certificates of all authorities that are to be trusted."""
        name = self.wanted.authority
        data, version = read_secret(self._client, self.wanted.namespace, name)
        found = Pair(data.get(AUTHORITY, b""), data.get(AUTHORITY_KEY, b""))
        previous = data.get(PREVIOUS, b"")
        if belong_together(found) and not must_renew(found.certificate, now):
            authority = found
        else:
            authority = make_authority(f"hami {self.wanted.namespace}", now, self.wanted.authority_lifetime)
            previous = found.certificate
            change = {AUTHORITY: authority.certificate, AUTHORITY_KEY: authority.key, PREVIOUS: previous or None}
            write_secret(self._client, self.wanted.namespace, name, change, resource_version=version)
            written.append(name)
        self.ends[name] = ends_at(authority.certificate) or now
        end = ends_at(previous)
        return authority, authority.certificate + (previous if end is not None and now < end else b"")

    def _leaf(
        self, name: str, subject: Subject, authority: Pair, trusted: bytes, now: datetime, written: list[str]
    ) -> None:
        data, version = read_secret(self._client, self.wanted.namespace, name)
        pair = Pair(data.get(CERTIFICATE, b""), data.get(KEY, b""))
        is_right = is_for(pair, subject, authority) and not must_renew(pair.certificate, now)
        if not is_right:
            # kube-scheduler reads its client certificate once, at its start; servers of ours follow theirs.
            lifetime = self.wanted.lifetime if subject.is_server else self.wanted.authority_lifetime
            pair = issue(authority, subject, now, lifetime)
        if not is_right or data.get(AUTHORITY) != trusted:
            change = {CERTIFICATE: pair.certificate, KEY: pair.key, AUTHORITY: trusted}
            write_secret(self._client, self.wanted.namespace, name, change, resource_version=version)
            written.append(name)
        self.ends[name] = ends_at(pair.certificate) or now
