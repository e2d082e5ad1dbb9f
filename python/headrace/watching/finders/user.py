"""Jobs of users: `headrace watch --user anna`. Batch jobs, scopes of systemd, else sessions."""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from headrace.errors import MissingError, UsageError
from headrace.watching.finders import Finder, FoundJob
from headrace.watching.process_table import ProcessTable, grouped, hides_others


class UserFinder(Finder):
    """The processes that belong to some users, by name or number."""

    kind: ClassVar[str] = "user"
    ends: ClassVar[bool] = False

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._users = frozenset(_number(name) for name in names)
        self._table = ProcessTable()
        self._names: dict[str, str] = {}
        self._found = False

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment."""
        mine = [process for process in self._table.look() if process.user in self._users]
        if not mine and not self._found:
            users = ", ".join(self.names)
            if hides_others():
                raise MissingError(
                    f"--user {users}: no process of this user can be seen",
                    hint="/proc is mounted with hidepid and shows the processes of others to root "
                    "only",
                )
            raise UsageError(
                f"--user {users}: no process of this user runs here",
                hint="`ps -e -o user,pid,comm` lists who runs what; --all watches all jobs",
            )
        self._found = True
        return grouped(mine, self._names)


def _number(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"--user {name}: no such user", hint="`id NAME` knows users") from None
