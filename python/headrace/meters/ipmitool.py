"""The system's ipmitool as one process that keeps its session with a BMC open.

A process per reading would take 30 ms of CPU time and a new session each; `ipmitool shell` takes
commands on its standard input and prints a prompt after each answer. The password reaches it in its
environment, which only the same user and root can read.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace.meters import MeterError
from headrace.meters.http_client import password_of
from headrace.system.requirements import find_program, remedy
from headrace.system.waiting import remaining

_PROMPT = b"ipmitool> "
_FIRST_ANSWER_S = 30.0
"""Longest wait for a session and for the list of a BMC's sensors, which is read once."""
_GOODBYE_S = 0.5
_PASSWORD_VARIABLES = ("IPMITOOL_PASSWORD", "IPMI_PASSWORD")
_LONGEST_PASSWORD_BYTES = 20
"""IPMI 2.0, 22.30."""


@dataclass(frozen=True)
class IpmiTarget:
    """Which BMC, and how its session is opened."""

    host: str | None
    """None for this machine's."""
    port: int
    user: str | None
    interface: str
    cipher_suite: int | None
    privilege: str


def password_for(file: str | None) -> str:
    """Return the password from a file, or else from the environment. Raises MeterError."""
    if file is not None:
        password = password_of(file)
    else:
        found = [os.environ[name] for name in _PASSWORD_VARIABLES if name in os.environ]
        password = found[0] if found else ""
    if len(password.encode()) > _LONGEST_PASSWORD_BYTES:
        raise MeterError(
            f"the password has more than {_LONGEST_PASSWORD_BYTES} bytes, the most that IPMI knows",
            hint="check the first line of the password file",
        )
    return password


class IpmiShell:
    """One ipmitool process. It ends when this process does, since its standard input ends."""

    def __init__(self, target: IpmiTarget, password: str, timeout_s: float) -> None:
        program = find_program("ipmitool")
        if program is None:
            raise MeterError("ipmitool is not installed", hint=remedy("ipmitool"))
        self._target, self._timeout_s, self._has_password = target, timeout_s, bool(password)
        self._waits_s = max(timeout_s, _FIRST_ANSWER_S)
        self._process = subprocess.Popen(
            [program, *_arguments(target, timeout_s), "shell"],
            env=_environment(password),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, command: str) -> str:
        """Return what a command prints, errors included. Raises MeterError."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(command.encode() + b"\n")
        except OSError:
            raise MeterError(f"{self._where}: ipmitool has ended") from None
        said = self._answer().partition("\n")[2]  # the first line repeats the command
        self._waits_s = self._timeout_s
        return said

    def close(self) -> None:
        """End the process, with its session: a BMC has only a few, and forgets them late."""
        process = self._process
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if process.stdin is not None:
                process.stdin.write(b"exit\n")
            process.wait(_GOODBYE_S)
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    @property
    def _where(self) -> str:
        return self._target.host or "BMC of this machine"

    def _answer(self) -> str:
        """Return what is printed up to the next prompt."""
        stdout = self._process.stdout
        assert stdout is not None
        said = b""
        for left_s in remaining(self._waits_s):
            if not select.select([stdout], [], [], left_s)[0]:
                continue
            piece = os.read(stdout.fileno(), 65536)
            said += piece
            text = said.decode("utf-8", "replace")
            if not piece or "Unable to establish" in text:
                raise self._no_session(text)
            if said.endswith(_PROMPT):
                return text.removesuffix(_PROMPT.decode())
        raise MeterError(
            f"{self._where} gave no answer within {self._waits_s:g} s",
            hint="check the BMC and the network",
        )

    def _no_session(self, said: str) -> MeterError:
        """Return why there is no session, from what `ipmitool -v` says."""
        where = self._where
        if "Could not open device" in said:
            if "Permission denied" in said or Path("/dev/ipmi0").exists():
                return MeterError("/dev/ipmi0 cannot be opened", hint="run as root")
            return MeterError(
                "this machine has no BMC that the kernel knows (no /dev/ipmi0)",
                hint="load its drivers (modprobe ipmi_si ipmi_devintf); virtual machines have "
                "none; for a BMC on the network state host",
            )
        if "lookup" in said and "failed" in said:
            return MeterError(f"{where} is not found", hint="check the name of the BMC")
        if any(word in said for word in _REFUSALS):
            given = "" if self._has_password else " (no password is given)"
            return MeterError(
                f"{where} refuses user and password{given}",
                hint="state user and password_file in the study, or set IPMI_PASSWORD",
            )
        if "privilege" in said or "unauthorized role" in said:
            return MeterError(
                f"{where} refuses the privilege {self._target.privilege} to this user",
                hint="state another privilege, or allow it to the user in the BMC",
            )
        if "algorithm" in said or "cipher" in said.lower().replace("channel cipher suites", ""):
            return MeterError(
                f"{where} refuses the cipher suite",
                hint="state cipher_suite: 17 or 3, as the BMC allows",
            )
        return MeterError(
            f"{where} gave no session of IPMI ({self._target.interface})",
            hint="check the address, user and password, interface, and that IPMI over LAN is "
            "switched on in the BMC",
        )


_REFUSALS = (
    "HMAC is invalid",
    "unauthorized name",
    "Invalid user name",
    "password invalid",
    "Authentication type",
)


def _arguments(target: IpmiTarget, timeout_s: float) -> list[str]:
    """Return the options of ipmitool: verbose, since it says why a session fails only then."""
    found = ["-v", "-c"]
    if target.host is None:
        return [*found, "-I", "open"]
    tries = max(1, int(timeout_s))
    found += ["-I", target.interface, "-H", target.host, "-p", str(target.port)]
    found += ["-L", target.privilege, "-N", "1", "-R", str(tries), "-E"]
    if target.user is not None:
        found += ["-U", target.user]
    if target.cipher_suite is not None and target.interface == "lanplus":
        found += ["-C", str(target.cipher_suite)]
    return found


def _environment(password: str) -> dict[str, str]:
    """Return the environment with the password, and without settings of the user's terminal."""
    quiet = {"TERM": "dumb", "INPUTRC": "/dev/null", "LC_ALL": "C"}
    return {**os.environ, **quiet, **dict.fromkeys(_PASSWORD_VARIABLES, password)}
