"""Which packages a package may import (law 2): `tests/unit/test_house.py` checks it."""

# A package may import itself and the packages named here (law 2). `engine` stands beside the way:
# records, plan, study, parts, ground.
BASE = {
    "system",
    "catalog",
    "currencies",
    "published",
    "document",
    "file_kinds",
    "validation",
    "units",
    "errors",
    "labels",
    "site",
    "offers",
    "raid",
    "registry",
    "palette",
    "provenance",
    "user",
    "refusals",
    "scenario",
    "special_functions",
    "json_text",
    "text_file",
    "whole_file",
    "_core",
}
PLUGINS = {"targets", "workloads", "probes", "meters", "faults", "datasets", "readers"}
# Captured behaviour of jobs and drives: used by plug-ins (a probe that traces, a workload that
# replays) and by interfaces.
CAPTURED = {"traces", "profiles"}
ALLOWED: dict[str, set[str]] = {
    **{
        name: {"errors", "registry", "units"}
        for name in (
            "units",
            "errors",
            "labels",
            "registry",
            "palette",
            "user",
            "special_functions",
        )
    },
    "site": {"raid", "units"},
    "offers": {"catalog", "currencies", "site", "units"},
    "raid": set(),
    "currencies": set(),
    "provenance": set(),
    "scenario": set(),
    "document": {"errors", "registry", "toml_lines", "units", "user"},
    "file_kinds": {"document", "errors"},
    "toml_lines": set(),
    "json_text": set(),
    "text_file": {"errors"},
    "whole_file": {"errors"},
    "refusals": {"registry", "units"},
    "validation": {"document", "errors", "refusals"},
    **dict.fromkeys(("system", "catalog", "published"), BASE),
    "traces": BASE,
    "profiles": BASE,
    "drives": BASE | {"traces"},
    "jobs": {"scenario"},
    "datasets": BASE,
    "protocols": BASE,
    "readers": BASE | {"datasets", "jobs", "protocols"},
    "targets": BASE | {"datasets", "protocols"},
    "faults": BASE | {"protocols", "targets"},
    "probes": BASE | CAPTURED,
    "meters": BASE,
    "workloads": BASE | CAPTURED | {"datasets", "jobs", "protocols", "readers", "targets"},
    # Where jobs run: it starts workloads, sets up storage of nodes, reads their meters, and knows
    # nothing of trials.
    "launchers": BASE
    | {"datasets", "jobs", "meters", "probes", "protocols", "targets", "workloads"},
    "study": BASE | PLUGINS | {"launchers"},
    "plan": BASE | PLUGINS | {"study"},
    "records": BASE | {"plan", "study"},
    "engine": BASE | PLUGINS | {"launchers", "study", "plan", "records"},
    "metrics": BASE | {"records", "study"},
    # What running jobs wait for, seen from outside.
    "watching": BASE | {"plan", "probes", "records"},
    # What a run tells its observer, as metrics for other programs.
    "monitoring": BASE | {"engine", "plan"},
    "analysis": BASE | {"metrics", "records", "plan", "study"},
    "decision": BASE | {"analysis", "metrics", "records", "study"},
    "whatif": BASE
    | PLUGINS
    | {"decision", "analysis", "metrics", "engine", "plan", "records", "study"},
    "report": BASE | {"decision", "analysis", "metrics", "records", "plan", "study"},
    "calibration": BASE
    | PLUGINS
    | {"whatif", "report", "analysis", "engine", "plan", "records", "study"},
    "reproduce": BASE | PLUGINS | {"study", "plan", "records", "engine", "analysis", "report"},
    # Why a program is slow: it is run, watched, recorded, and simulated on other storage.
    "verdict": BASE | PLUGINS | CAPTURED | {"engine", "report", "watching"},
    # A job profile in outline, from what a watch sees.
    "outline": BASE | CAPTURED | {"watching"},
    "library": BASE
    | PLUGINS
    | CAPTURED
    | {"study", "plan", "records", "metrics", "engine", "analysis", "decision", "whatif", "report"}
    | {"calibration"},
    # The library in a notebook: results that show themselves.
    "notebook": BASE | CAPTURED | {"library", "report", "analysis"},
    # Results and what-if in the browser.
    "serving": BASE
    | PLUGINS
    | CAPTURED
    | {"analysis", "decision", "engine", "metrics", "plan", "records", "report", "study"}
    | {"verdict", "watching"},
    "cli": BASE
    | PLUGINS
    | CAPTURED
    | {
        "drives",
        "study",
        "plan",
        "records",
        "launchers",
        "engine",
        "analysis",
        "report",
        "library",
        "calibration",
        "reproduce",
        "serving",
        "monitoring",
        "outline",
        "verdict",
        "watching",
    },
    "__init__": {"library", "notebook", "errors"},
    "__main__": {"cli"},
}
