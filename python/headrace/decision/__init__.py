"""Decisions: which configuration to buy, from records of all kinds, offers and wishes. Pure.

offers.py       prices of drives, nodes, servers and switches, with date and currency
wishes.py       what is wanted, and within which limits
candidates.py   records -> configurations with their numbers and uncertainty
meters.py       what energies are off by, because their meters are
costs.py        inventory and offers -> price, capacity, power, wear, failures
rebuild.py      exposure of data while a failed drive is rebuilt
choose.py       configurations -> feasible ones, Pareto front, the best, how sure that is
screening.py    which configurations of a simulated study could be the best
sensitivity.py  what would change the answer, and what to measure next
"""
