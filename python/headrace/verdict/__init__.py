"""Why is this program slow, and what would change it: the verdict of `headrace why`.

`running.py` runs a program, watched (`watching.py`) and recorded. `observation.py` has what was
seen as plain data, `shares.py` and `calls.py` make it from counts and from a recording, and
`limit.py` and `words.py` say what it means; these are pure, so that whatever has an observation
gets the same verdict.
"""
