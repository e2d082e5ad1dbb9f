"""Distinguishes software (programs, libraries, settings) from data, by path and suffix."""

from __future__ import annotations

import re

_PLACES = (
    "/usr/",
    "/lib",
    "/bin/",
    "/sbin/",
    "/etc/",
    "/opt/",
    "/nix/",
    "/cvmfs/",
    "/snap/",
    "/var/lib/",
    "/dev/",
    "/run/",
)
_NAMES = re.compile(
    r"pyvenv\.cfg$|/lib/python\d|\.(?:py|pyc|pyi|so(?:\.[\d.]+)?|pth|pcm|rootmap|h|hh|hpp|hxx|sh|json\.lock)$"
    r"|/site-packages/|/__pycache__/|/\.pyenv/|/dist-info/"
)


def is_software(path: str) -> bool:
    """Return True for programs, libraries and their settings, by path and suffix."""
    return path.startswith(_PLACES) or _NAMES.search(path) is not None
