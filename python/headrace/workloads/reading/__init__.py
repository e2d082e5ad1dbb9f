"""Reading events, shared by scan, analysis and skim: warm-up, skims of the user's own files."""

from __future__ import annotations
