"""How are the secrets of second factors kept?  Encrypted under a key outside the database."""

from __future__ import annotations

import base64

import qrcode  # type: ignore[import-untyped]  # it ships no types
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from qrcode.image.svg import SvgPathFillImage  # type: ignore[import-untyped]  # nor here


def _box() -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=b"gpuaas.second-factor.v1")
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))


class SealedFactors(DefaultMFAAdapter):  # type: ignore[misc]  # allauth ships no types
    """allauth's keeping of factors, with their secrets sealed."""

    def build_totp_svg(self, url: str) -> str:
        """The code to scan, on white: an app's camera needs the contrast in dark pages too."""
        drawn = qrcode.make(url, image_factory=SvgPathFillImage)
        return str(drawn.to_string(encoding="unicode"))

    def encrypt(self, text: str) -> str:
        """The text, readable with the installation's secret key only."""
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Its counterpart. Raises InvalidToken when the secret key is another."""
        return _box().decrypt(encrypted_text.encode()).decode()
