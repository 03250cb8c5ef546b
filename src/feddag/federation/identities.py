"""Who a site is to the others: its Ed25519 identity, certified by the authority that signs a federation's kits.

A site signs its part of a secure sum with its identity, which the site makes itself. The authority certifies that an
identity belongs to a name. Every site has the authority's root in its kit, so it accepts no other site's identity from
a server, and sites that join later are known to all. A site also remembers each identity that it has seen, over all its
studies: even the authority cannot exchange one unnoticed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from feddag.errors import FeddagError
from feddag.federation.revocations import Revocations
from feddag.federation.terms import CERTIFICATE_NOTICE, IDENTITY_BYTES
from feddag.files import atomic_write, check_private

ROOT_LASTS, CERTIFICATE_LASTS = timedelta(days=3650), timedelta(days=365)
_SLOW_CLOCKS = timedelta(hours=1)
"""How far a participant's clock may be behind the authority's when it gets its certificate."""
_ORGANISATION = "feddag"
_ROOT_KEY, _ROOT = "root.key", "root.crt"

IDENTITY_PURPOSE = x509.ObjectIdentifier("2.25.147696746481421291440712298211769805329")
"""What an identity's certificate is for, and no other: none of TLS passes for it, and it passes for none of TLS."""


def public_identity(identity: bytes) -> bytes:
    """Return the public part of a site's identity (32 secret bytes): what is certified, and what a study can pin."""
    return Ed25519PrivateKey.from_private_bytes(identity).public_key().public_bytes_raw()


def fingerprint(content: bytes) -> str:
    """Return 32 hexadecimal digits in groups of four, for people who compare a key or a root by telephone."""
    digits = hashlib.sha256(content).hexdigest()[:32]
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


class KnownIdentities:
    """The identities under which other sites were first seen; in a file, if a path is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._seen: dict[str, bytes] = {}

    def read(self) -> dict[str, bytes]:
        """Return the identities by site; from the file every time, which another process may have changed."""
        if self._path is None:
            return dict(self._seen)
        try:
            return {site: bytes.fromhex(identity) for site, identity in json.loads(self._path.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise FeddagError(
                f"{self._path} is damaged ({error}). Restore it; or remove it, and compare the fingerprints of all "
                "sites by telephone after the next study has begun."
            ) from None

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each site's identity."""
        return {site: fingerprint(identity) for site, identity in self.read().items()}

    def remember(self, identities: Mapping[str, bytes]) -> None:
        """Keep identities that are not known yet."""
        seen = self.read()
        if new := {site: identity for site, identity in identities.items() if site not in seen}:
            self._write(seen | new)

    def forget(self, site: str) -> None:
        """Forget a site's identity, so that it may show another."""
        seen = self.read()
        if site not in seen:
            raise FeddagError(f"No identity of {site!r} is known here. Known are {', '.join(seen) or 'none'}.")
        self._write({name: identity for name, identity in seen.items() if name != site})

    def _write(self, seen: Mapping[str, bytes]) -> None:
        self._seen = dict(seen)
        if self._path is not None:
            with atomic_write(self._path) as stream:
                os.fchmod(stream.fileno(), 0o600)
                json.dump({site: identity.hex() for site, identity in sorted(seen.items())}, stream, indent=2)


@dataclass(frozen=True)
class Trust:
    """Whom a participant believes: identities that its authority certifies, and that have not changed."""

    root: x509.Certificate
    known: KnownIdentities = field(default_factory=KnownIdentities)
    revoked: Revocations = field(default_factory=Revocations)

    @classmethod
    def load(cls, root: Path, known: Path, revoked: Path) -> Self:
        """Read a root, in PEM, and what it has revoked; remember identities in a file."""
        certificate = x509.load_pem_x509_certificate(root.read_bytes())
        return cls(certificate, KnownIdentities(known), Revocations.kept(revoked, certificate))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the authority's root, which participants compare before they trust it."""
        return fingerprint(self.root.public_bytes(serialization.Encoding.DER))

    def check(self, site: str, identity: bytes, certificate: bytes, now: datetime | None = None) -> None:
        """Refuse an identity that the authority does not certify as the site's now, or that is not the known one."""
        check_identity_certificate(certificate, self.root, site, identity, now)
        if self.revoked.has_identity(identity):
            raise FeddagError(
                f"Site {site} shows an identity that the authority has revoked ({fingerprint(identity)}). If it has "
                "new keys, it sends a new request: feddag kit request."
            )
        known = self.known.read().get(site, identity)
        if known != identity:
            raise FeddagError(
                f"Site {site} shows an identity with the fingerprint {fingerprint(identity)}, but {fingerprint(known)} "
                f"is on record. Call the site, and compare. If it has new keys: feddag kit identities --kit KIT "
                f"--forget {site}. If not, stop: somebody stands in between."
            )


@dataclass(frozen=True)
class SiteIdentity:
    """What a site signs with, what proves to others that it is the site's, and whom it believes itself."""

    name: str
    secret: bytes = field(repr=False)
    certificate: bytes
    """In DER."""
    trust: Trust

    @classmethod
    def load(cls, name: str, secret: Path, certificate: Path, trust: Trust) -> Self:
        """Read an identity's key and its certificate, in PEM."""
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        return cls(name, secret.read_bytes(), found.public_bytes(serialization.Encoding.DER), trust)

    def __post_init__(self) -> None:
        self.trust.check(self.name, self.public, self.certificate)

    @property
    def public(self) -> bytes:
        """The identity's public key."""
        return public_identity(self.secret)

    @property
    def fingerprint(self) -> str:
        """What other sites compare with the one they see."""
        return fingerprint(self.public)


def ends_soon(certificate: bytes) -> datetime | None:
    """Return when a certificate, in DER, expires, if that is soon."""
    ends = x509.load_der_x509_certificate(certificate).not_valid_after_utc
    return ends if ends - datetime.now(UTC) < CERTIFICATE_NOTICE else None


def check_identity_certificate(
    certificate: bytes, root: x509.Certificate, site: str, identity: bytes, now: datetime | None = None
) -> None:
    """Refuse a certificate (in DER) by which a root does not certify, now, that an identity is a site's."""
    try:
        found = x509.load_der_x509_certificate(certificate)
        found.verify_directly_issued_by(root)
        purposes = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        names = [str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        key = found.public_key()
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise FeddagError(
            f"Site {site}: its identity's certificate is not of this federation's authority, or damaged. Have it sign "
            "the site's request, and install what it returns."
        ) from None
    now = now or datetime.now(UTC)
    for begins, ends in (
        (found.not_valid_before_utc, found.not_valid_after_utc),
        (root.not_valid_before_utc, root.not_valid_after_utc),
    ):
        if not begins <= now <= ends:
            raise FeddagError(
                f"Site {site}: its identity's certificate holds from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}, and it is "
                f"{now:%Y-%m-%d} here. Have it renewed (feddag federation renew), or set the clock."
            )
    if list(purposes) != [IDENTITY_PURPOSE] or not isinstance(key, Ed25519PublicKey):
        raise FeddagError(f"Site {site} shows a certificate that is not for identities. Install its kit again.")
    if names != [site]:
        raise FeddagError(f"Site {site} shows the certificate of {', '.join(names)}. Install its own kit there.")
    if key.public_bytes_raw() != identity:
        raise FeddagError(f"Site {site} shows an identity that its certificate does not name. Install its kit again.")


class Authority:
    """The authority of a federation: its root, by which participants know each other, and the root's private key."""

    def __init__(self, key: rsa.RSAPrivateKey, root: x509.Certificate) -> None:
        self._key = key
        self.root = root

    @classmethod
    def create(cls, name: str) -> Self:
        """Make the authority of a new federation."""
        key = rsa.generate_private_key(65537, 3072)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = {"key_cert_sign": True, "crl_sign": True}
        builder = _builder(subject, key.public_key(), datetime.now(UTC) + ROOT_LASTS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(key, _sign(builder.add_extension(_key_usage(**usage), critical=True), key, subject))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an authority from its folder."""
        if not (folder / _ROOT_KEY).is_file():
            raise FeddagError(f"{folder} is not a folder of an authority: {_ROOT_KEY} is not there. Check the path.")
        check_private(folder)
        key = serialization.load_pem_private_key((folder / _ROOT_KEY).read_bytes(), None)
        root = x509.load_pem_x509_certificate((folder / _ROOT).read_bytes())
        if not isinstance(key, rsa.RSAPrivateKey) or key.public_key() != root.public_key():
            raise FeddagError(f"{folder}: {_ROOT_KEY} is not the key of {_ROOT}. Restore the folder.")
        return cls(key, root)

    def save(self, folder: Path) -> None:
        """Write the authority into a folder that only its owner reads."""
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with atomic_write(folder / _ROOT_KEY, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(private_pem(self._key))
        with atomic_write(folder / _ROOT, "wb") as stream:
            stream.write(self.root.public_bytes(serialization.Encoding.PEM))

    def sign(self, content: bytes) -> bytes:
        """Sign what is no certificate."""
        return self._key.sign(content, padding.PKCS1v15(), hashes.SHA256())

    def certify_identity(self, name: str, identity: bytes, ends: datetime | None = None) -> bytes:
        """Certify that an identity is a site's; the certificate is in DER."""
        key = Ed25519PublicKey.from_public_bytes(identity)
        builder = _builder(_subject(name), key, self._ends(ends))
        builder = builder.add_extension(_key_usage(), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([IDENTITY_PURPOSE]), critical=True)
        return _sign(builder, self._key, self.root.subject).public_bytes(serialization.Encoding.DER)

    def certify_tls(
        self,
        name: str,
        key: rsa.RSAPublicKey,
        *,
        role: str | None = None,
        host: str | None = None,
        ends: datetime | None = None,
    ) -> bytes:
        """Certify a participant's TLS key, in PEM: of a server at a host, or of a client."""
        builder = _builder(_subject(name, role), key, self._ends(ends))
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
        return _sign(builder, self._key, self.root.subject).public_bytes(serialization.Encoding.PEM)

    def identify(self, name: str, secret: bytes | None = None, known: KnownIdentities | None = None) -> SiteIdentity:
        """Return a site's identity under this authority, for a federation in one process."""
        secret = secret or os.urandom(IDENTITY_BYTES)
        certificate = self.certify_identity(name, public_identity(secret))
        return SiteIdentity(name, secret, certificate, Trust(self.root, known or KnownIdentities()))

    def _ends(self, ends: datetime | None) -> datetime:
        return min(ends or datetime.now(UTC) + CERTIFICATE_LASTS, self.root.not_valid_after_utc)


def private_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key as a text that is not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _subject(name: str, role: str | None = None) -> x509.Name:
    parts = [(NameOID.COMMON_NAME, name), (NameOID.ORGANIZATION_NAME, _ORGANISATION)]
    if role is not None:
        parts.append((NameOID.UNSTRUCTURED_NAME, role))
    try:
        return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    except ValueError as error:
        raise FeddagError(f"{name!r} cannot be certified: {error}. Choose a shorter name.") from None


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, key: rsa.RSAPublicKey | Ed25519PublicKey, ends: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), ends) - _SLOW_CLOCKS)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _sign(builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey, issuer: x509.Name) -> x509.Certificate:
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(issuer_key, critical=False).issuer_name(issuer).sign(key, hashes.SHA256())


def _key_usage(*, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
