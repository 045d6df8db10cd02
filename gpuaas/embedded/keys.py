"""Which key signs what the control plane tells its nodes to do?"""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from gpuaas.embedded.files import kept_secret


def control_key_kept(path: Path) -> None:
    """Makes the Ed25519 signing key (PEM, PKCS#8) at ``path`` unless it is there."""
    kept_secret(path, _new_pem)


def _new_pem() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
