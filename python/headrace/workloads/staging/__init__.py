"""Input brought to the node before a job reads it: copied in the background (FileStager), through a cache of the node (pCache)."""
