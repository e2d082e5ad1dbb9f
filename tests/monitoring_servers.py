"""Real monitoring on loopback: Ganglia's gmond, Prometheus with node_exporter. Ended by pid."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from headrace.system.waiting import wait_until
from ports import free_port

PATIENCE_S = 60
GMOND = """
globals {{
 daemonize = no
 setuid = no
 host_dmax = 0
 send_metadata_interval = 1
 override_hostname = "node07"
 override_ip = "127.0.0.1"
}}
cluster {{
 name = "farm"
}}
udp_send_channel {{
 host = 127.0.0.1
 port = {port}
}}
udp_recv_channel {{
 port = {port}
 bind = 127.0.0.1
}}
tcp_accept_channel {{
 port = {port}
 bind = 127.0.0.1
}}
modules {{
 module {{
  name = "core_metrics"
 }}
 module {{
   name = "load_module"
   path = "{modules}/modload.so"
 }}
 module {{
   name = "mem_module"
   path = "{modules}/modmem.so"
 }}
}}
collection_group {{
 collect_every = 1
 time_threshold = 1
 metric {{
  name = "load_one"
  value_threshold = 0
 }}
 metric {{
  name = "mem_free"
  value_threshold = 0
 }}
}}
"""
PROMETHEUS = """
scrape_configs:
- job_name: node
  scrape_interval: 1s
  static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]
"""


@contextmanager
def running(*command: object) -> Generator[None]:
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@contextmanager
def gmond(folder: Path) -> Generator[str]:
    """The address of a gmond that has values of the host `node07`."""
    port = free_port()
    config = folder / "gmond.conf"
    (modules,) = Path("/usr/lib").glob("**/ganglia/modload.so")
    config.write_text(GMOND.format(port=port, modules=modules.parent))

    def ready() -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5) as connection,
        ):
            text = b""
            while piece := connection.recv(1 << 16):
                text += piece
            return b'"load_one"' in text and b'"mem_free"' in text
        return False

    with running("gmond", "--conf", config, "--foreground"):
        assert wait_until(ready, PATIENCE_S, 0.2), "gmond has no values"
        yield f"127.0.0.1:{port}"


@contextmanager
def prometheus(folder: Path) -> Generator[tuple[str, str]]:
    """The URLs of a Prometheus server and of the node_exporter that it scrapes."""
    port, exporter = free_port(), free_port()
    config = folder / "prometheus.yml"
    config.write_text(PROMETHEUS.format(exporter=exporter))
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            query = {"query": "node_load1"}
            return bool(httpx.get(f"{url}/api/v1/query", params=query).json()["data"]["result"])
        return False

    with (
        running(
            *("prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{exporter}"),
            *("--collector.disable-defaults", "--collector.loadavg", "--collector.cpu"),
        ),
        running(
            *("prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"),
            f"--storage.tsdb.path={folder / 'tsdb'}",
        ),
    ):
        assert wait_until(ready, PATIENCE_S, 0.2), "Prometheus has no values"
        yield url, f"http://127.0.0.1:{exporter}/metrics"
