"""Input staging: background copies to the node (FileStager), a node's cache (pCache)."""
