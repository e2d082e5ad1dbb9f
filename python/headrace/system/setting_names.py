"""Base layer: the names of the settings of storage (`storage_settings.py`)."""

NAMES = ("queue_depth", "scheduler", "read_ahead")
"""In the order of setting: setting the depth switches to the scheduler `none` for a moment."""
