"""Code of the workload `dask`: a Dask cluster for one trial, in the user's Python."""
