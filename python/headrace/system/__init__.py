"""Ground: all that touches the machine. Nothing outside this room mounts, formats, writes to sysfs or starts a daemon.

`journal.py` comes first: every change goes through it. The rest is one file a thing: mounts, devices, loops, cgroups …
"""
