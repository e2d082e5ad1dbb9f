"""Ground: a small cluster on one machine: nodes as network namespaces, joined by links of a stated rate.

    cluster = Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("nas", link=LinkSettings(rate_bytes_per_s=125e6))])
    cluster["nas"].address              # 10.77.0.2
    cluster["nas"].start(journal, …)    # a program on that node: its network, CPU set and memory
    cluster.cut("nas"); cluster.mend("nas")
    cluster.close()

A node has an interface `eth0`; the other end of its cable is a port of a bridge in a namespace of its own. No namespace has a way
out, so that addresses cannot clash with any of the machine's, and what servers say stays in the cluster. Everything is in the
undo journal before it is there.
"""

from __future__ import annotations

from headrace.system.cluster.building import Cluster, why_not
from headrace.system.cluster.links import LinkSettings
from headrace.system.cluster.namespaces import Interface, call_inside
from headrace.system.cluster.nodes import Node, NodeSettings

__all__ = ["Cluster", "Interface", "LinkSettings", "Node", "NodeSettings", "call_inside", "why_not"]
