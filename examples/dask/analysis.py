#!/usr/bin/env python3
"""The spectrum of the leading muon of ROOT files, on Dask: analysis.py FILE …

Nothing here knows of Headrace. `Client()` finds the scheduler in DASK_SCHEDULER_ADDRESS.
"""

import sys

import numpy as np
import uproot
from distributed import Client, as_completed

STEP = 20_000
BINS = np.linspace(0, 200, 101)


def count(path):
    """Return the number of events in a file."""
    with uproot.open(path) as file:
        return path, file["Events"].num_entries


def spectrum(path, start, stop):
    """Return the number of events in a range and their histogram."""
    with uproot.open(path) as file:
        pt = file["Events"]["Muon_pt"].array(entry_start=start, entry_stop=stop)
    leading = np.array([each[0] for each in pt.tolist() if each])
    return stop - start, np.histogram(leading, BINS)[0]


def main(files):
    """Print the spectrum of the files."""
    with Client() as client:
        sizes = client.gather(client.map(count, files))
        ranges = [
            (path, start, min(start + STEP, events))
            for path, events in sizes
            for start in range(0, events, STEP)
        ]
        jobs = client.map(lambda each: spectrum(*each), ranges)
        events, histogram = 0, np.zeros(len(BINS) - 1, dtype=int)
        for _, (some, found) in as_completed(jobs, with_results=True):
            events, histogram = events + some, histogram + found
    peak = BINS[histogram.argmax()]
    print(f"{histogram.sum()} events have a muon; most of them near {peak:.0f} GeV")
    print(f"processed {events} events")


if __name__ == "__main__":
    main(sys.argv[1:])
