"""Base layer: a small cluster on one machine: network namespaces as nodes, links of a given rate.

    fast = LinkSettings(rate_bytes_per_s=125e6)
    cluster = Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("nas", link=fast)])
    cluster["nas"].address              # 10.77.0.2
    cluster["nas"].start(journal, …)    # a program on that node: its network, CPU set and memory
    cluster.cut("nas"); cluster.mend("nas")
    cluster.close()

A node has an interface `eth0`; the other end of its cable is a port of a bridge in a separate
namespace. No namespace has an uplink, so that addresses cannot clash with the machine's, and server
traffic stays in the cluster. Everything is recorded in the undo journal before it is created.
"""

from __future__ import annotations

from headrace.system.cluster.building import Cluster, why_not
from headrace.system.cluster.links import LinkSettings
from headrace.system.cluster.nodes import Node, NodeSettings
from headrace.system.network_namespaces import call_inside

__all__ = ["Cluster", "LinkSettings", "Node", "NodeSettings", "call_inside", "why_not"]
