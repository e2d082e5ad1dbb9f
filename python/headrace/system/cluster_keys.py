"""Base layer: keys and certificates (TLS) of a Dask cluster of one user, for their eyes alone.

A certification authority of the cluster's own signs one certificate for each role. Dask checks that
the other end has a certificate of this authority; names of hosts play no part in it.
"""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.errors import HeadraceError, RefusedError
from headrace.system.key_states import KeyState

ROLES = ("scheduler", "worker", "client")
CONFIGURATION = "dask.yaml"
_TRIAL_DAYS = 7
_SKEW = datetime.timedelta(days=1)
"""By how much the clock of a node may be behind."""


def key_state(file: Path) -> KeyState:
    """Return the state of a private key or certificate in PEM form."""
    secret = True
    try:
        mode, content = file.stat().st_mode, file.read_bytes()
        secret = b"PRIVATE KEY" in content
        if secret:
            serialization.load_pem_private_key(content, None)
            return KeyState(str(file), secret, open_to_others=bool(mode & 0o077))
        found = x509.load_pem_x509_certificate(content)
    except OSError as error:
        return KeyState(str(file), secret, lacks=error.strerror or str(error))
    except (ValueError, TypeError):  # TypeError: it needs a password
        return KeyState(str(file), secret, lacks="no key or certificate that Dask can use")
    now = datetime.datetime.now(datetime.UTC)
    return KeyState(
        str(file),
        secret,
        open_to_others=bool(mode & 0o022),
        begins_in_s=(found.not_valid_before_utc - now).total_seconds(),
        ends_in_s=(found.not_valid_after_utc - now).total_seconds(),
    )


def default_folder() -> Path:
    """Return the folder of this user's credentials: `~/.config/headrace/cluster`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "headrace" / "cluster"


def make_credentials(folder: Path, days: int) -> None:
    """Create the authority, the keys of every role, and Dask's configuration, all or nothing.

    Raises RefusedError when the folder exists, HeadraceError when it cannot be written.
    """
    if folder.exists() or folder.is_symlink():
        raise RefusedError(
            f"{folder} exists: nothing is overwritten",
            hint="use these credentials, name another --directory, or remove it yourself",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".headrace-", dir=folder.parent))  # mode 700
        try:
            _fill(made, folder, days)
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        raise HeadraceError(f"{folder} cannot be made: {error.strerror}") from error


def credentials_of_a_trial() -> tuple[str, str]:
    """Return a certificate and its key as PEM texts, valid for a few days; they sign themselves.

    For processes that share this one key: each accepts the others, and nobody else.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Headrace trial {os.urandom(8).hex()}")
    authority = x509.BasicConstraints(ca=True, path_length=0)
    made = _builder(name, name, key, _TRIAL_DAYS).add_extension(authority, critical=True)
    signed = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(pem, form, serialization.NoEncryption())
    return signed.public_bytes(pem).decode(), secret.decode()


def _fill(made: Path, folder: Path, days: int) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name(f"Headrace cluster {os.urandom(8).hex()}")
    authority = x509.BasicConstraints(ca=True, path_length=0)
    ca = _builder(ca_name, ca_name, ca_key, days).add_extension(authority, critical=True)
    _write(made, "ca", ca_key, ca.sign(ca_key, hashes.SHA256()))
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(f"Headrace {role}"), ca_name, key, days)
        end = x509.BasicConstraints(ca=False, path_length=None)
        signed = builder.add_extension(end, critical=True).sign(ca_key, hashes.SHA256())
        _write(made, role, key, signed)
    _write_file(made / CONFIGURATION, _configuration(folder).encode())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    _write_file(
        folder / f"{name}-key.pem", key.private_bytes(pem, form, serialization.NoEncryption())
    )
    _write_file(folder / f"{name}.pem", certificate.public_bytes(pem))


def _write_file(file: Path, content: bytes) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)


def _configuration(folder: Path) -> str:
    """Return Dask's configuration; JSON strings are valid YAML, whatever a path contains."""
    import json

    lines = [
        "# Written by headrace cluster init. To use it: export DASK_CONFIG=THIS_FILE",
        "distributed:",
        "  comm:",
        "    require-encryption: true",
        "    timeouts:",
        "      tcp: 90 s  # with Dask's 30 s a shorter interruption of the network ends a worker",
        "    tls:",
        f"      ca-file: {json.dumps(str(folder / 'ca.pem'), ensure_ascii=False)}",
    ]
    for role in ROLES:
        lines += [
            f"      {role}:",
            f"        cert: {json.dumps(str(folder / f'{role}.pem'), ensure_ascii=False)}",
            f"        key: {json.dumps(str(folder / f'{role}-key.pem'), ensure_ascii=False)}",
        ]
    return "\n".join(lines) + "\n"
