"""Base layer: a real HDFS: one name node and data nodes, each a Java process on its node.

They start as Hadoop's own scripts would start them. Their state is read from the name node's /jmx
page. The distribution's web pages are not installed; empty directories of their names satisfy the
daemons.
"""

from __future__ import annotations

import json
import shutil
import socket
import urllib.request
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from xml.sax.saxutils import escape

from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.system.cluster import Node, call_inside
from headrace.system.processes import run_program
from headrace.system.servers import Server, ServerContext
from headrace.system.servers.hadoop import class_path, missing
from headrace.system.servers.hdfs_blocks import NAME_HTTP_PORT

RPC_PORT = 8020
_DATA_PORT, _DATA_IPC_PORT, _DATA_HTTP_PORT = 9866, 9867, 9864
_JMX_PATIENCE_S = 5.0
_CONNECT_PATIENCE_S = 5.0
_FORMAT_PATIENCE_S = 120.0

_LOGGING = """log4j.rootLogger=WARN,E
log4j.appender.E=org.apache.log4j.ConsoleAppender
log4j.appender.E.target=System.err
log4j.appender.E.layout=org.apache.log4j.PatternLayout
log4j.appender.E.layout.ConversionPattern=%d %p %c: %m%n
"""


@dataclass(frozen=True)
class HdfsSettings:
    """Options of all servers of one HDFS."""

    replicas: int = 3
    block_bytes: int = 128 << 20
    heartbeat_s: int = 3
    recheck_s: float = 300.0
    """A data node is dead after no heartbeat for twice this plus ten heartbeats."""
    heap_bytes: int = 256 << 20
    """Java heap of each server."""

    @property
    def dead_after_s(self) -> float:
        """Time without heartbeat until the name node drops a data node and copies its blocks."""
        return 2 * self.recheck_s + 10 * self.heartbeat_s


class _Daemon(Server):
    """A Java process with its own configuration."""

    programs: ClassVar[tuple[str, ...]] = ("java",)
    main: ClassVar[str]

    def __init__(self, name: str, node: Node, settings: HdfsSettings) -> None:
        super().__init__(name, node)
        self.settings = settings

    @override
    @classmethod
    def check(cls, needed_by: str) -> list[Problem]:
        return missing(needed_by)

    @abstractmethod
    def properties(self, context: ServerContext) -> Mapping[str, str]:
        """Return the properties of its hdfs-site.xml."""

    @override
    def configure(self, context: ServerContext) -> None:
        folder = context.work_dir / "configuration"
        folder.mkdir(exist_ok=True)
        for name in ("hdfs", "datanode", "static"):
            (context.work_dir / "webapps" / name).mkdir(parents=True, exist_ok=True)
        values = {"hadoop.tmp.dir": str(context.work_dir / "temporary"), **self.properties(context)}
        lines = [
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
            for key, value in values.items()
        ]
        text = "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(text)
        (folder / "log4j.properties").write_text(_LOGGING)

    def java(self, context: ServerContext, *arguments: str) -> list[str]:
        """Return the command line of its main class."""
        path = [context.work_dir / "configuration", context.work_dir, *class_path()]
        return [
            "java",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Xmx{self.settings.heap_bytes >> 20}m",
            "-XX:+UseSerialGC",
            "-cp",
            ":".join(map(str, path)),
            self.main,
            *arguments,
        ]

    @override
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        return [self.java(context)]

    def bean(self, port: int, query: str) -> dict[str, Any]:
        """Return one bean of its /jmx page. Raises OSError or ValueError without an answer."""
        url = f"http://{self.node.address}:{port}/jmx?qry={query}"

        def ask() -> bytes:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=_JMX_PATIENCE_S) as answer:
                return answer.read()

        beans: list[dict[str, Any]] = json.loads(call_inside(self.node.namespace, ask))["beans"]
        if not beans:
            raise ValueError(f"{url}: no such bean")
        return beans[0]


class NameNode(_Daemon):
    """The name node: knows the blocks of each file and their data nodes.

    Its image is in its work directory.
    """

    kind: ClassVar[str] = "hdfs"
    ports: ClassVar[tuple[int, ...]] = (RPC_PORT, NAME_HTTP_PORT)
    main: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.NameNode"

    @property
    def url(self) -> str:
        """URL of the file system."""
        return f"hdfs://{self.node.address}:{RPC_PORT}"

    @override
    def properties(self, context: ServerContext) -> Mapping[str, str]:
        settings, address = self.settings, self.node.address
        return {
            "fs.defaultFS": self.url,
            "dfs.namenode.rpc-address": f"{address}:{RPC_PORT}",
            "dfs.namenode.http-address": f"{address}:{NAME_HTTP_PORT}",
            "dfs.namenode.name.dir": (context.work_dir / "image").as_uri(),
            "dfs.namenode.resource.du.reserved": str(1 << 20),
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.heartbeat.recheck-interval": str(round(settings.recheck_s * 1000)),
            "dfs.namenode.fs-limits.min-block-size": str(min(1 << 20, settings.block_bytes)),
            "dfs.namenode.safemode.extension": "0",
            "dfs.heartbeat.interval": str(settings.heartbeat_s),
            "dfs.replication": str(settings.replicas),
            "dfs.blocksize": str(settings.block_bytes),
            "dfs.permissions.enabled": "false",
        }

    @override
    def configure(self, context: ServerContext) -> None:
        super().configure(context)
        if not (context.work_dir / "image").exists():
            argv = self.java(context, "-format", "-nonInteractive")
            run_program(
                context.journal,
                self.node.command(argv),
                directory=context.work_dir,
                timeout_s=_FORMAT_PATIENCE_S,
            )

    @override
    def is_ready(self) -> bool:
        # In safe mode it waits for the data nodes' block reports, and rejects writes.
        try:
            return self.state()["state"] == "Operational"
        except HeadraceError:
            return False

    def state(self) -> dict[str, int | str]:
        """Return the state of data nodes and blocks.

        Numbers of live and dead data nodes; of blocks with too few copies, on no living node, and
        damaged; and whether safe mode is on. Raises HeadraceError when it does not answer.
        """
        try:
            system = self.bean(NAME_HTTP_PORT, "Hadoop:service=NameNode,name=FSNamesystem")
            state = self.bean(NAME_HTTP_PORT, "Hadoop:service=NameNode,name=FSNamesystemState")
        except (OSError, ValueError, KeyError) as error:
            raise HeadraceError(f"the name node {self.name} does not answer: {error}") from error
        return {
            "live": int(state["NumLiveDataNodes"]),
            "dead": int(state["NumDeadDataNodes"]),
            "lacking_copies": int(system["UnderReplicatedBlocks"])
            + int(system["PendingReplicationBlocks"]),
            "missing": int(system["MissingBlocks"]),
            "damaged": int(system["CorruptBlocks"]),
            "state": str(state["FSState"]),
        }

    def lacking(self, data_nodes: int) -> str:
        """Return in words what the blocks' copies lack now; empty when all are complete.

        Raises HeadraceError as `state` does.
        """
        state = self.state()
        if int(state["live"]) < data_nodes:
            return f"{data_nodes - int(state['live'])} of {data_nodes} data nodes are away"
        for key, words in (("missing", "are on no data node"), ("lacking_copies", "lack copies")):
            if state[key]:
                return f"{state[key]} blocks {words}"
        return ""

    def live_addresses(self) -> set[str]:
        """Return `address:port` of the live data nodes.

        Raises OSError or ValueError when the name node does not answer.
        """
        info = self.bean(NAME_HTTP_PORT, "Hadoop:service=NameNode,name=NameNodeInfo")
        nodes: dict[str, dict[str, Any]] = json.loads(info["LiveNodes"])
        return {str(node["xferaddr"]) for node in nodes.values()}


class DataNode(_Daemon):
    """Stores blocks as files in `context.storage`."""

    kind: ClassVar[str] = "hdfs-data"
    ports: ClassVar[tuple[int, ...]] = (_DATA_PORT, _DATA_IPC_PORT, _DATA_HTTP_PORT)
    main: ClassVar[str] = "org.apache.hadoop.hdfs.server.datanode.DataNode"

    def __init__(self, name: str, node: Node, settings: HdfsSettings, name_node: NameNode) -> None:
        super().__init__(name, node, settings)
        self.name_node = name_node

    @override
    def properties(self, context: ServerContext) -> Mapping[str, str]:
        address = self.node.address
        return {
            "fs.defaultFS": self.name_node.url,
            "dfs.namenode.rpc-address": f"{self.name_node.node.address}:{RPC_PORT}",
            "dfs.datanode.address": f"{address}:{_DATA_PORT}",
            "dfs.datanode.ipc.address": f"{address}:{_DATA_IPC_PORT}",
            "dfs.datanode.http.address": f"{address}:{_DATA_HTTP_PORT}",
            "dfs.datanode.hostname": address,
            "dfs.datanode.data.dir": (context.storage / "blocks").as_uri(),
            "dfs.datanode.du.reserved": "0",
            # Otherwise a drive with less than 1 GiB free accepts no block.
            "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": "0",
            "dfs.heartbeat.interval": str(self.settings.heartbeat_s),
            "dfs.blocksize": str(self.settings.block_bytes),
        }

    @override
    def is_ready(self) -> bool:
        try:
            info = self.bean(_DATA_HTTP_PORT, "Hadoop:service=DataNode,name=DataNodeInfo")
            actors: list[dict[str, str]] = json.loads(info["BPServiceActorInfo"])
            known = f"{self.node.address}:{_DATA_PORT}" in self.name_node.live_addresses()
        except (OSError, ValueError, KeyError):
            return False
        return known and bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)

    @override
    def lose_storage(self) -> int:
        if self.settings.replicas < 2:
            return super().lose_storage()
        blocks = self._given().storage / "blocks"
        lost = sum(file.stat().st_size for file in blocks.rglob("blk_*") if file.suffix != ".meta")
        shutil.rmtree(blocks)
        return lost


def reach_name_node(address: str) -> None:
    """Connect to `host:port` once: the Rust client retries a refusing name node for ever.

    Raises HeadraceError.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_PATIENCE_S):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise HeadraceError(f"the name node {address} is not reached: {why}") from error
