"""Base layer: every access to the machine.

No other package mounts, formats, writes to sysfs or starts a daemon. Every change goes through the
undo journal (`journal.py`). Each other module handles one resource: mounts, devices, loop devices,
cgroups …
"""
