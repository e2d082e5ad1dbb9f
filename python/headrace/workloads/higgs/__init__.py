"""The search for Higgs to four leptons, shared by the workloads analysis and skim.

`columns.py` names the columns read, `histograms.py` the histograms filled; `selection.py` selects
with awkward arrays, `readers/kernel.hpp` in C++ for ROOT's readers; `fits.py` fits the peaks.
"""
