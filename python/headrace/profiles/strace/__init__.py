"""Profiles from text of strace: `lines` has the format, `reader` what calls do to files."""
