"""Base layer: the authorities whose certificates clients of HTTPS trust."""

from __future__ import annotations

import os
import ssl
from functools import cache

from headrace.errors import HeadraceError

_FILE, _FOLDER = "SSL_CERT_FILE", "SSL_CERT_DIR"
REMEDY = f"name the file (PEM) of its authority: {_FILE}=FILE.pem"
"""For a certificate that is not trusted."""


def trusted() -> ssl.SSLContext:
    """Return what verifies a service: the authorities of the machine, and those that browsers have.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` of the environment replace both, as for OpenSSL's programs.
    Raises HeadraceError when they name nothing that can be read.
    """
    return _of(os.environ.get(_FILE, ""), os.environ.get(_FOLDER, ""))


@cache
def _of(file: str, folder: str) -> ssl.SSLContext:
    if not file and not folder:
        import certifi  # a container may have no authorities of its own

        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
        return context
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except (OSError, ssl.SSLError) as error:
        raise HeadraceError(
            f"{_FILE if file else _FOLDER} names no certificates: {file or folder}: {error}"
        ) from None


def why_not_trusted(error: BaseException) -> str:
    """Return why a certificate is not trusted, from the error of a client; else an empty text."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" not in said:
        return ""
    return said.rpartition("verify failed: ")[2].partition(" (_ssl")[0]
