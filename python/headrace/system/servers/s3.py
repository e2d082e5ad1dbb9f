"""Base layer: a real S3 server, the Versity gateway: objects are files on the medium.

Build it with `go install github.com/versity/versitygw/cmd/versitygw@latest`; `make setup-all` does
so where Go is installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

from typing_extensions import override

from headrace.errors import MissingError, Problem
from headrace.system.cluster import Node
from headrace.system.own_programs import own_program
from headrace.system.servers import Server, ServerContext

S3_PORT = 7070
_PROGRAM = "versitygw"
_REMEDY = (
    "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 (make setup-all does it where Go "
    "is installed)"
)


class S3Gateway(Server):
    """One endpoint with one account; buckets are created through it."""

    kind: ClassVar[str] = "s3"
    programs: ClassVar[tuple[str, ...]] = (_PROGRAM,)
    ports: ClassVar[tuple[int, ...]] = (S3_PORT,)

    def __init__(self, name: str, node: Node) -> None:
        super().__init__(name, node)
        self.access_key = f"headrace-{os.urandom(4).hex()}"
        self.secret_key = os.urandom(16).hex()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self.node.address}:{S3_PORT}"

    @override
    @classmethod
    def check(cls, needed_by: str) -> list[Problem]:
        try:
            own_program(_PROGRAM)
        except MissingError:
            return [
                Problem(
                    f"the program {_PROGRAM} (an S3 server) is not installed", needed_by, _REMEDY
                )
            ]
        return []

    @override
    def configure(self, context: ServerContext) -> None:
        """Do nothing: all options are on its command line."""

    @override
    def environment(self, context: ServerContext) -> Mapping[str, str]:
        # Not on the command line, which every user can read.
        return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}

    @override
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        listen = f"{self.node.address}:{S3_PORT}"
        program = str(own_program(_PROGRAM))
        return [
            [program, "--port", listen, "--keep-alive", "--quiet", "posix", str(context.storage)]
        ]

    @override
    def is_ready(self) -> bool:
        return self.node.accepts(self.node.address, S3_PORT)
