"""Job profiles: what a job asked of its files and when, recorded from a run, imported, shown, replayed and simulated.

`steps.py` is the table of steps and its file; `recording.py` reads what the preloaded library wrote, `strace.py`, `darshan.py` and
`xrootd.py` what other tools did; `timeline.py` makes one line of all threads; `summary.py` and `picture.py` show a profile,
`scenario.py` hands it to the simulator, `primitives.py` and `replaying.py` run it.
"""
