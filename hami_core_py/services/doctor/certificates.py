"""Whether a webhook's caBundle vouches for the certificate that the webhook shows, and until when that is good."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.decisions.doctor.facts import Certificate


def certificate_fact(where: str, webhook: str, chain: bytes, bundle: bytes) -> Certificate | None:
    """What there is to say of a serving certificate.

    :param chain: PEM, the serving certificate first. :param bundle: PEM of the authorities that the API server trusts.
    :returns: ``None``: the chain holds no certificate.
    """
    shown, authorities = _read(chain), _read(bundle)
    if not shown:
        return None
    return Certificate(
        where=where,
        webhook=webhook,
        expires_ns=int(min(one.not_valid_after_utc for one in shown).timestamp()) * SECOND_NS,
        trusted=_is_trusted(shown[0], shown[1:], authorities),
    )


def serves(chain: bytes, host: str) -> bool:
    """Whether a certificate names a host."""
    shown = _read(chain)
    if not shown:
        return False
    try:
        names = shown[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return host in names.get_values_for_type(x509.DNSName)


def certificate_of_secret(secret: Mapping[str, Any]) -> bytes:
    """The public half of a TLS Secret; empty: it has none."""
    return decoded((secret.get("data") or {}).get("tls.crt"))


def decoded(text: object) -> bytes:
    """Bytes of a base64 text; empty when it is none."""
    try:
        return base64.b64decode(str(text or ""), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _read(pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()


def _is_trusted(
    leaf: x509.Certificate, between: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> bool:
    """Whether some authority signed the certificate, or one that stands between them."""
    current, left = leaf, list(between)
    while True:
        if current in authorities or any(_signed(current, authority) for authority in authorities):
            return True
        following = next((one for one in left if _signed(current, one)), None)
        if following is None:
            return False
        left.remove(following)
        current = following


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def first_trusted(facts: Iterable[Certificate]) -> Certificate | None:
    """Of several certificates for one host the trusted one, else the first: a Secret may be left over."""
    found = list(facts)
    return next((one for one in found if one.trusted), found[0] if found else None)
