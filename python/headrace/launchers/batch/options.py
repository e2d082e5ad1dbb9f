"""`[run.batch]`: how the nodes of a study are requested from a batch system.

Values become lines of a job script. So each is a number, a name or path of harmless characters, or
one line that only the batch system reads.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from headrace.refusals import form
from headrace.site import Section
from headrace.units import Bytes, Seconds

_NAME = form(
    r"^[A-Za-z0-9_*][A-Za-z0-9_.,@*:+/-]*$", "letters, digits and _ . , @ * : + / - without spaces"
)
_PLAIN_PATH = form(
    r"^(/|~/)[A-Za-z0-9_./+@=-]*$",
    "a path from / or ~/, of letters, digits and _ . / + @ = - without spaces",
)
Name = Annotated[str, Field(pattern=_NAME, max_length=200)]
PlainPath = Annotated[str, Field(pattern=_PLAIN_PATH, max_length=200)]
PROGRAM_PATH = re.compile(r"/[^\x00-\x1f\x7f\u0080-\u009f\u2028\u2029$`\"\\]+")
_PROGRAM_PATH = form(
    f"^{PROGRAM_PATH.pattern}$", 'a path from / without $, `, ", \\ and control characters'
)
_INTERFACE = form(r"^[A-Za-z0-9_.:-]{1,15}$", "the name of a network interface: ip link lists them")
_ADDRESS = form(r"^[A-Za-z0-9.:-]+$", "an IP address or the name of a host")
ProgramPath = Annotated[str, Field(pattern=_PROGRAM_PATH)]
_NOT_ON_ONE_LINE = re.compile(r"[\x00-\x1f\x7f\u0080-\u009f\u2028\u2029]|\\$")


def _one_line(text: str) -> str:
    if not text or text != text.strip() or _NOT_ON_ONE_LINE.search(text):
        raise ValueError("must be one line without control characters or \\ at its end")
    return text


class BatchOptions(Section):
    """`[run.batch]`: one batch job is submitted for each node."""

    queue: Name | None = Field(None, description="partition (Slurm) or queue of the jobs")
    account: Name | None = Field(None, description="account or project that pays for the jobs")
    walltime: Seconds | None = Field(
        None, ge=1, description="time limit of each job; that of the queue when not given"
    )
    cores: int | None = Field(
        None, ge=1, le=10_000, description="cores of each job; whole nodes when not given"
    )
    memory: Bytes | None = Field(
        None, ge=1 << 20, description="memory of each job; as the queue has it when not given"
    )
    parallel_environment: Name | None = Field(
        None, description="sge: the parallel environment that gives a job several cores"
    )
    setup: ProgramPath | None = Field(
        None, description="a file that the job's shell reads (.) before it starts Python"
    )
    interface: Annotated[str, Field(pattern=_INTERFACE)] | None = Field(
        None, description="network interface, here and on the nodes; loopback when not given"
    )
    address: Annotated[str, Field(pattern=_ADDRESS, max_length=200)] | None = Field(
        None, description="address of this machine at which the nodes reach it"
    )
    directives: tuple[Annotated[str, AfterValidator(_one_line)], ...] = Field(
        (),
        max_length=50,
        description="further options of the batch system, as after #SBATCH, #$ or #PBS; "
        "`name = value` for htcondor",
    )
    folder: PlainPath | None = Field(
        None,
        description="an absolute path that this machine and the nodes share, for credentials and "
        "logs while a run lasts; ~/.local/state/headrace/batch when not given",
    )
    patience: Seconds = Field(600.0, gt=0, description="how long to wait until all jobs run")

    @model_validator(mode="before")
    @classmethod
    def _python_of_run(cls, given: Any) -> Any:
        if isinstance(given, dict) and "python" in given:
            raise ValueError("python is a field of [run], for every kind of node: move it there")
        return given  # pyright: ignore[reportUnknownVariableType]

    @model_validator(mode="after")
    def _consistent(self) -> BatchOptions:
        if self.interface is not None and self.address is not None:
            raise ValueError("interface and address cannot both be given")
        return self
