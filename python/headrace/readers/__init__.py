"""Readers: how a workload gets events out of ROOT files, and the exact count of what it asked of the storage for them.

Three readers read the same files: `uproot` (uproot_reader.py), ROOT's RDataFrame and a classic event loop compiled
by ROOT's interpreter (root_reader.py, with the optional `root` package). Shared by the workloads scan, analysis and skim.
"""

from __future__ import annotations
