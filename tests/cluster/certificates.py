"""A certificate authority for one cluster: components, users and webhooks get their certificates here."""

import base64
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """Issues certificates into a directory, as ``<name>.crt`` and ``<name>.key``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.certificate = directory, directory / "ca.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("cluster authority")
        own = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, user: str, group: str = "", hosts: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key of a user, who may also serve as these hosts; the same each time."""
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        if certificate.exists():
            return certificate, key
        private = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(user, group), private.public_key()).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        write_key(key, private)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return certificate, key

    def bundle(self) -> str:
        """``caBundle`` of a webhook whose certificate comes from here."""
        return base64.b64encode(self.certificate.read_bytes()).decode()

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=30))
        )


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    """Write a private key that only we can read."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _name(user: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
