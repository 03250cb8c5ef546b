"""What a participant sends to the authority, and what comes back: two text files, neither of which holds a secret.

A participant makes its keys itself. Its *request* has their public halves, each signed by the key it belongs to. The
authority returns a *signed kit*: certificates for these keys, the authority's root, the server's address, the study.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from feddag.errors import FeddagError
from feddag.federation.identities import private_pem, public_identity
from feddag.federation.terms import IDENTITY_BYTES
from feddag.files import atomic_write

REQUEST, SIGNED_KIT = ".request", ".kit"
"""How the two files' names end."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TLS_BITS = 2048
_LEAST_BITS = 2048


@dataclass(frozen=True)
class Keys:
    """A participant's private keys."""

    tls: rsa.RSAPrivateKey
    identity: bytes

    @classmethod
    def make(cls) -> Self:
        """Make new keys."""
        return cls(rsa.generate_private_key(65537, _TLS_BITS), os.urandom(IDENTITY_BYTES))

    @classmethod
    def read(cls, tls: Path, identity: Path) -> Self:
        """Read keys from the files that `write` wrote."""
        try:
            key, secret = load_pem_private_key(tls.read_bytes(), None), identity.read_bytes()
        except (ValueError, TypeError) as error:
            raise FeddagError(
                f"{tls} is damaged ({error}). Restore it, or make new keys: feddag kit request."
            ) from None
        if not isinstance(key, rsa.RSAPrivateKey) or len(secret) != IDENTITY_BYTES:
            raise FeddagError(f"{tls} or {identity} is damaged. Restore them, or make new keys: feddag kit request.")
        return cls(key, secret)

    def write(self, tls: Path, identity: Path) -> None:
        """Write the keys into files that only their owner reads."""
        for path, content in ((tls, private_pem(self.tls)), (identity, self.identity)):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with atomic_write(path, "wb") as stream:
                os.fchmod(stream.fileno(), 0o600)
                stream.write(content)


@dataclass(frozen=True)
class Request:
    """A participant's request for a kit."""

    name: str
    identity: str
    """The identity's public key, in hexadecimal."""
    tls: str
    """A certificate signing request for the TLS key, in PEM."""
    signature: str
    """Of the identity, over all this."""

    @classmethod
    def make(cls, name: str, keys: Keys) -> Self:
        """Ask for a kit under a name."""
        check_name(name)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        tls = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(keys.tls, hashes.SHA256())
        bare = cls(name, public_identity(keys.identity).hex(), tls.public_bytes(Encoding.PEM).decode(), "")
        signature = Ed25519PrivateKey.from_private_bytes(keys.identity).sign(bare._signed())
        return cls(bare.name, bare.identity, bare.tls, signature.hex())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a request; refuse one whose keys did not sign it."""
        request = cls(**_read(path, cls, "request"))
        check_name(request.name)
        try:
            key = Ed25519PublicKey.from_public_bytes(request.identity_key)
            key.verify(bytes.fromhex(request.signature), request._signed())
            signing_request = x509.load_pem_x509_csr(request.tls.encode())
            signed = signing_request.is_signature_valid
            names = [str(each.value) for each in signing_request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        except (ValueError, InvalidSignature) as error:
            raise FeddagError(f"{path} was changed, or is damaged ({error}). Ask for it again.") from None
        if not signed or names != [request.name]:
            raise FeddagError(f"{path} was changed, or is damaged: its TLS key did not sign it. Ask for it again.")
        request.tls_key()
        return request

    @property
    def identity_key(self) -> bytes:
        """The identity's public key."""
        return bytes.fromhex(self.identity)

    def tls_key(self) -> rsa.RSAPublicKey:
        """Return the public TLS key; refuse one that FLARE cannot use, or that is too short."""
        key = x509.load_pem_x509_csr(self.tls.encode()).public_key()
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _LEAST_BITS:
            raise FeddagError(
                f"The request of {self.name!r} has no RSA key of {_LEAST_BITS} bits or more. Make it anew."
            )
        return key

    def write(self, path: Path) -> None:
        """Write the request."""
        _write(path, asdict(self))

    def _signed(self) -> bytes:
        return b"feddag request 1\n" + json.dumps([self.name, self.identity, self.tls]).encode()


@dataclass(frozen=True)
class SignedKit:
    """The authority's answer to a request."""

    name: str
    federation: str
    """The federation's name, which all its kits have in common."""
    host: str
    port: int
    root: str
    """The authority's root, in PEM as all that follows."""
    tls: str
    identity: str
    """Empty for the server and for the analyst, who sign no sums."""
    study: str
    """The study's file; empty if the kit renews certificates only."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a signed kit. `Kit.install` checks what it says."""
        kit = cls(**_read(path, cls, "signed kit"))
        check_name(kit.name)
        return kit

    def write(self, path: Path) -> None:
        """Write the signed kit."""
        _write(path, asdict(self))


def check_name(name: str) -> None:
    """Refuse a name that a participant cannot have."""
    if not _NAME.fullmatch(name):
        raise FeddagError(f"A participant cannot be called {name!r}. Use up to 64 letters, digits, '-' and '_'.")


def _read(path: Path, kind: type, what: str) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FeddagError(f"{path} is not there. Check the path.") from None
    except ValueError as error:
        raise FeddagError(f"{path} is no {what} ({error}). Ask for it again.") from None
    fields: dict[str, str] = {name: str(each) for name, each in kind.__annotations__.items()}
    types = {"str": str, "int": int}
    if not isinstance(content, dict) or set(content) != set(fields):
        raise FeddagError(f"{path} is no {what}. It must have {', '.join(fields)}, and nothing else.")
    for name, each in fields.items():
        if type(content[name]) is not types[each]:
            raise FeddagError(f"{path} is no {what}: its part {name!r} is of the wrong form. Ask for it again.")
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as stream:
        json.dump(content, stream, indent=2)
        stream.write("\n")
