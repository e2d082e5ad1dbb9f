"""Writes tables of events as ROOT files whose every basket or page lies where the data set's options say.

uproot writes ROOT files too, one basket a branch a call, in the order of the calls. A laboratory for storage has to
choose basket sizes, clusters and the place of every basket, so the baskets and pages are written here; everything
else of the file (header, directory, metadata) is uproot's, by way of its writer's inner classes, in `rootfile.py`,
`ttree.py` and `rntuple.py` alone. They are not part of uproot's public face: pyproject.toml holds uproot to one minor version.
"""
