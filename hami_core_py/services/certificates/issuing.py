"""An authority and the certificates that it signs; pure but for the random numbers of keys."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AHEAD: Final = timedelta(minutes=5)
"""Certificates hold from a little before they are made, for clocks that lag."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key.

    :ivar certificate: PEM, one certificate.
    """

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is for.

    :ivar names: host names and addresses of a server; of a client its name alone.
    """

    names: tuple[str, ...]
    is_server: bool


def make_authority(name: str, now: datetime, lifetime: timedelta) -> Pair:
    """A new authority, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject, subject, key, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def issue(authority: Pair, subject: Subject, now: datetime, lifetime: timedelta) -> Pair:
    """A certificate signed by an authority; it never outlives it. :raises ValueError: the authority cannot be read."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"expected an elliptic-curve key, got {type(issuer_key).__name__}")
    key = ec.generate_private_key(ec.SECP256R1())
    lifetime = min(lifetime, issuer.not_valid_after_utc - now)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if subject.is_server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_name(subject.names[0]), issuer.subject, key, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if subject.is_server:
        names = [_general_name(name) for name in subject.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def ends_at(certificate_pem: bytes) -> datetime | None:
    """When a certificate ends; ``None``: it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(certificate_pem).not_valid_after_utc
    except ValueError:
        return None


def must_renew(certificate_pem: bytes, now: datetime) -> bool:
    """Whether two thirds of its life are over, or it cannot be read."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError:
        return True
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not begin <= now < begin + (end - begin) * 2 / 3


def belong_together(pair: Pair) -> bool:
    """Whether a key is that of its certificate, and both can be read."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError):
        return False
    return key.public_key() == certificate.public_key()


def is_for(pair: Pair, subject: Subject, authority: Pair) -> bool:
    """Whether a certificate names just this subject and is signed by this authority."""
    if not belong_together(pair):
        return False
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except (ValueError, TypeError, InvalidSignature):
        return False
    if not subject.is_server:
        return certificate.subject == _name(subject.names[0])
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return list(names) == [_general_name(name) for name in subject.names]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - AHEAD)
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    # A common name has 64 characters at most; servers are known by their alternative names, whatever stands here.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
