"""Keys that an authority has taken back: a list that it signs, and that participants keep in their kits.

The server lets nobody in who shows a certificate for such a key, and sites sum with no identity on the list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from feddag.errors import FeddagError
from feddag.files import atomic_write

if TYPE_CHECKING:
    from feddag.federation.identities import Authority


@dataclass(frozen=True)
class Revocations:
    """Digests of public keys, each with the name of its participant."""

    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, root: x509.Certificate) -> Self:
        """Read a list; refuse one that the root's key did not sign."""
        try:
            content = json.loads(path.read_bytes())
            keys, signature = dict(content["keys"]), bytes.fromhex(content["signature"])
            public = root.public_key()
            if not isinstance(public, rsa.RSAPublicKey):
                raise ValueError("the root has no RSA key")
            public.verify(signature, _signed(keys), padding.PKCS1v15(), hashes.SHA256())
        except FileNotFoundError:
            raise FeddagError(f"{path} is not there. Check the path.") from None
        except (ValueError, KeyError, TypeError, InvalidSignature) as error:
            why = str(error) or "its authority did not sign it so"
            raise FeddagError(
                f"{path} is no list of revoked keys of this federation ({why}). Ask for it again."
            ) from None
        return cls(keys)

    @classmethod
    def kept(cls, path: Path, root: x509.Certificate) -> Self:
        """Read the list that is kept here; an empty one if there is none yet."""
        return cls.read(path, root) if path.exists() else cls()

    def write(self, path: Path, authority: Authority) -> None:
        """Write the list, signed."""
        signature = authority.sign(_signed(self.keys)).hex()
        with atomic_write(path) as stream:
            json.dump({"keys": dict(self.keys), "signature": signature}, stream, indent=2)
            stream.write("\n")

    def has_identity(self, identity: bytes) -> bool:
        """Say whether an identity, which is a public key, was revoked."""
        return identity_digest(identity) in self.keys

    def has_certificate(self, certificate: bytes) -> bool:
        """Say whether the key of a certificate, in DER, was revoked."""
        return key_digest(x509.load_der_x509_certificate(certificate).public_key()) in self.keys


def identity_digest(identity: bytes) -> str:
    """Return the digest by which the list knows an identity."""
    return hashlib.sha256(identity).hexdigest()


def key_digest(key: object) -> str:
    """Return the digest by which the list knows a public key."""
    public: rsa.RSAPublicKey = key  # pyright: ignore[reportAssignmentType] - all kinds of keys have this method
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _signed(keys: Mapping[str, str]) -> bytes:
    return b"feddag revocations 1\n" + json.dumps(sorted(keys.items())).encode()
