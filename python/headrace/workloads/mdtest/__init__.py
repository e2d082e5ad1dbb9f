"""mdtest's phases and output table, shared by the workload `metadata` and the importer."""
