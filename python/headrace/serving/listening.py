"""Where the server listens, and who may reach it: checked, and opened, before anything starts."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509

from headrace.errors import HeadraceError, RefusedError, UsageError

PASSWORD_AT_LEAST = 8
"""Characters of a password."""
_PASSWORD_AT_MOST = 1024
"""Bytes of a password."""


@dataclass(frozen=True)
class ServeOptions:
    """What the user asked for."""

    folder: Path
    address: str = "127.0.0.1"
    port: int = 8460
    """0: any free one."""
    password_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Listening:
    """An open socket and the rules of access to it."""

    socket: socket.socket = field(repr=False)
    address: str
    port: int
    hosts: frozenset[str]
    """Names by which browsers may address the server, in lower case, without the port."""
    password: str | None = field(repr=False)
    """None: the link has a token."""
    certificate: Path | None
    key: Path | None
    certified: frozenset[str] = frozenset()
    """Names in the certificate."""

    @property
    def origin(self) -> str:
        """The beginning of every link."""
        return self._origin_at(self.address)

    @property
    def elsewhere(self) -> str:
        """The link for other machines, where the address is that of no machine (0.0.0.0); else
        empty."""
        if is_loopback(self.address) or not ipaddress.ip_address(self.address).is_unspecified:
            return ""
        # A browser warns at a name that the certificate lacks.
        named = sorted(name for name in self.certified if is_name_of_others(name))
        return f"{self._origin_at(named[0] if named else socket.gethostname())}/"

    def _origin_at(self, host: str) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"


def listen(options: ServeOptions) -> Listening:
    """Check the options and open the socket; nothing else is started.

    Raises UsageError for a folder, file or address that cannot be used, and when the port is in
    use; RefusedError for an address that other machines reach without password and TLS.
    """
    if not os.path.isdir(options.folder):  # noqa: PTH112 - Path.is_dir raises PermissionError
        problem = "is not a folder" if os.path.exists(options.folder) else "not found"  # noqa: PTH110
        raise UsageError(
            f"{options.folder}: {problem}", hint="name a folder with results folders in it"
        )
    if (options.certificate is None) != (options.key is None):
        raise UsageError("--certificate and --key go together: give both files in PEM form")
    if not 0 <= options.port < 65536:
        raise UsageError(f"--port {options.port}: must be from 0 to 65535; 0 takes any free one")
    _refuse_open(options)
    password = _password(options.password_file) if options.password_file else None
    names = _check_certificate(options.certificate, options.key)
    opened = _socket(options.address, options.port)
    address, port = opened.getsockname()[:2]
    return Listening(
        opened, address, port, _hosts(options.address, address, names), password,
        options.certificate, options.key, names,
    )  # fmt: skip


def is_name_of_others(name: str) -> bool:
    """Return whether a name of a certificate is one that other machines can open."""
    return "*" not in name and not is_loopback(name)


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _refuse_open(options: ServeOptions) -> None:
    lacking = [
        option
        for option, given in (
            ("--password-file", options.password_file),
            ("--certificate", options.certificate),
            ("--key", options.key),
        )
        if given is None
    ]
    if not is_loopback(options.address) and lacking:
        raise RefusedError(
            f"--address {options.address}: other machines could reach the results and start "
            f"studies. Missing: {', '.join(lacking)}",
            hint="give a password and a certificate (TLS), or leave --address out and use "
            "ssh -L 8460:127.0.0.1:8460 HOST",
        )


def _password(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            given = opened.read(_PASSWORD_AT_MOST + 3)  # a line end, and one byte too many
    except OSError as error:
        raise UsageError(f"--password-file {file}: {error.strerror}") from None
    if mode & 0o077:
        raise RefusedError(
            f"--password-file {file}: other users can read or change it", hint=f"chmod 600 {file}"
        )
    if len(given.strip()) > _PASSWORD_AT_MOST:
        raise UsageError(
            f"--password-file {file}: longer than {_PASSWORD_AT_MOST} bytes: not a password"
        )
    text = given.decode(errors="replace").strip()
    if not text.isprintable() or "\ufffd" in text:
        raise UsageError(f"--password-file {file}: not one line of text (UTF-8)")
    if len(text) < PASSWORD_AT_LEAST:
        raise UsageError(
            f"--password-file {file}: the password has {len(text)} characters; at least "
            f"{PASSWORD_AT_LEAST} are needed"
        )
    return text


def _check_certificate(certificate: Path | None, key: Path | None) -> frozenset[str]:
    """Return the names in the certificate. Raises UsageError when the files cannot be used."""
    if certificate is None or key is None:
        return frozenset()
    for option, file in (("--certificate", certificate), ("--key", key)):
        if not os.path.isfile(file):  # noqa: PTH113
            raise UsageError(f"{option} {file}: not found")
    try:
        # A password would be asked for on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: b"")
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--certificate {certificate}, --key {key}: cannot be used for TLS: {error}",
            hint="both in PEM form, the key without a password",
        ) from None
    dns = names.get_values_for_type(x509.DNSName)
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset(str(name).lower() for name in (*dns, *addresses))


def _socket(address: str, port: int) -> socket.socket:
    host = address.strip("[]")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--address {address}: {getattr(error, 'strerror', error)}") from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(place)
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise _not_listening(address, port, error) from None
    return opened


def _not_listening(address: str, port: int, error: OSError) -> HeadraceError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"port {port} of {address} is in use by another program",
            hint="--port 0 takes any free one; or is `headrace serve` running already?",
        )
    if error.errno == errno.EACCES:
        return UsageError(f"port {port} is for root alone", hint="name one above 1023 with --port")
    return UsageError(f"cannot listen at port {port} of {address}: {error.strerror}")


def _hosts(given: str, address: str, names: frozenset[str]) -> frozenset[str]:
    """Return the names that a Host header may have.

    A page of another site can make its own name resolve to this address (DNS rebinding); a browser
    then sends that name.
    """
    found = {given.strip("[]").lower(), address.lower(), *names}
    if is_loopback(address) or ipaddress.ip_address(address).is_unspecified:
        found |= {"localhost", "127.0.0.1", "::1"}
    if not is_loopback(address):
        found |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(found)
