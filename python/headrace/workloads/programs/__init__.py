"""Code of the workloads that run programs of the user: `command`, `dask`."""
