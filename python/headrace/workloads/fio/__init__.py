"""fio under the workloads `sequential` and `random`: `client.py` runs it, `results.py` reads and merges what it says."""
