"""Headrace: a laboratory for the storage of analysis clusters."""
