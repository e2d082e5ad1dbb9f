"""The JSON Schema of the study file, for editors.

It is generated from the models that check the file, so that the two cannot differ.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from headrace import faults as fault_package
from headrace import meters as meter_package
from headrace import probes as probe_package
from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.offers import Offers
from headrace.site import Site
from headrace.study.load import VERSION
from headrace.study.model import PlanOptions, ReportOptions, RunOptions


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the study file with every registered kind."""
    definitions: dict[str, Any] = {}

    def reference(model: Any, name: str) -> dict[str, Any]:
        schema = TypeAdapter(model).json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def kinds(section: dict[str, Any], prefix: str) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for kind, part in section.items():
            name = f"{prefix}-{kind}"
            reference(part.Options, name)
            own = definitions[name]
            own.setdefault("properties", {})["kind"] = {"const": kind}
            own["required"] = ["kind", *own.get("required", [])]
            choices.append({"$ref": f"#/$defs/{name}"})
        return {"type": "object", "minProperties": 1, "additionalProperties": {"oneOf": choices}}

    properties: dict[str, Any] = {
        "headrace": {"const": VERSION, "description": "version of the study file"},
        "title": {"type": "string"},
        "target": kinds(dict(target_package.kinds()), "target"),
        "workload": kinds(dict(workload_package.kinds()), "workload"),
        "factors": {"type": "object", "description": "a field and the list of its levels"},
        "exclude": {"type": "array", "items": {"type": "object", "minProperties": 1}},
        "only": {"type": "array", "items": {"type": "object", "minProperties": 1}},
        "plan": reference(PlanOptions, "plan"),
        "run": reference(RunOptions, "run"),
        "report": reference(ReportOptions, "report"),
        "offers": reference(Offers, "offers"),
        "site": reference(Site, "site"),
        "meter": {**kinds(dict(meter_package.kinds()), "meter"), "minProperties": 0},
        "probe": {**kinds(probe_package.service_kinds(), "probe"), "minProperties": 0},
        "fault": {
            "type": "array",
            "items": {
                "anyOf": [
                    reference(part.Options, f"fault-{kind}")
                    for kind, part in fault_package.kinds().items()
                ]
            },
        }
        if fault_package.kinds()
        else {"type": "array"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headrace study",
        "type": "object",
        "required": ["headrace", "target", "workload"],
        "additionalProperties": False,
        "properties": properties,
        "$defs": definitions,
    }
