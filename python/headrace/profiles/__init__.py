"""Job profiles: a job's file operations and their times.

A profile is recorded from a run or imported, and can be shown, replayed and simulated. `steps.py`
defines the table of steps and its file. `recording.py` reads what the preloaded library wrote;
`strace.py`, `darshan.py` and `xrootd.py` import other tools' recordings. `timeline.py` merges all
threads into one sequence. `summary.py` and `picture.py` show a profile, `scenario.py` converts it
for the simulator, `primitives.py` and `replaying.py` replay it.
"""
