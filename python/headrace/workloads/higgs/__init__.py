"""The search for Higgs to four leptons: what it reads, selects, fills and fits. Shared by the workloads analysis and skim.

`columns.py` names what is read, `histograms.py` what is filled, `selection.py` does it with awkward arrays, `kernel.hpp`
the same in C++ for ROOT's readers, and `fits.py` finds the peaks.
"""
