"""Readers: how workloads read events of ROOT files, with exact counts of bytes requested.

Three readers read the same files: `uproot` (uproot_reader.py), and ROOT's RDataFrame and a classic
event loop compiled by ROOT's interpreter (both in root_reader.py, with the optional `root`
package). The workloads scan, analysis and skim share them.
"""

from __future__ import annotations
