"""Step 4 of the pipeline: append-only records, one directory per trial.

A directory is renamed into place when it is complete. `headrace.records` is also a function of the
library (`headrace.library.records`): the package is callable.
"""
