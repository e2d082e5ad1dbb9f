"""fio for the workloads `sequential` and `random`: run it (`client.py`), parse (`results.py`)."""
