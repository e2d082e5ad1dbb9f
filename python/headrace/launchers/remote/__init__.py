"""Jobs on other machines: a node process on each, and the launcher that speaks with them.

A node process (`node_process.py`) runs the jobs of its node with the launcher `local`, is the
node's agent, and keeps the node's undo journal. It reads calls from its standard input and writes
answers and events to its standard output (`messages.py`), so anything that carries two streams of
bytes can carry it. It ends, and undoes what it changed, when its input ends. `RemoteLauncher` in
`launcher.py` is the base of launchers that start node processes somewhere.
"""
