"""The Python library: the steps of the command line as typed functions.

study = headrace.load_study("study.toml")
study.plan()                               # the trials in order
results = study.run("results/disk")        # or study.simulate(…): the same in virtual time
findings, files = headrace.report(results)
headrace.records(results)                  # a DuckDB relation, one row per job
"""

from headrace.library.choosing import calibrate, decide, screen, sweep
from headrace.library.results import compare, gate, model_errors, records, report, report_text
from headrace.library.running import (
    LoadedStudy,
    Silent,
    default_results,
    environment,
    load_study,
    problems_of,
    refuse_problems,
    resume,
    run,
    simulate,
    version,
)

__all__ = [
    "LoadedStudy",
    "Silent",
    "calibrate",
    "compare",
    "decide",
    "default_results",
    "environment",
    "gate",
    "load_study",
    "model_errors",
    "problems_of",
    "records",
    "refuse_problems",
    "report",
    "report_text",
    "resume",
    "run",
    "screen",
    "simulate",
    "sweep",
    "version",
]
