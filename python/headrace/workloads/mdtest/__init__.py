"""mdtest's words: its phases and the table that it prints. What the workload `metadata` says and what is imported meet here."""
