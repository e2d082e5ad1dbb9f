"""`headrace profile …`: show, draw, import, export and simulate recorded jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err, out
from headrace.cli._finish import finish
from headrace.cli._notes import print_notes
from headrace.errors import UsageError
from headrace.units import format_amount

if TYPE_CHECKING:
    from headrace.catalog.tables import ProfileOutline
    from headrace.profiles.steps import Recording
    from headrace.profiles.summary import FileUse, Summary
    from headrace.report.text_table import TextTable

app = typer.Typer(
    help="Job profiles, recorded from real jobs: show, import, export, simulate.",
    no_args_is_help=True,
)

ProfileArgument = Annotated[Path, typer.Argument(help="a recorded profile (.toml)")]


def _overview(recording: Recording, summary: Summary) -> TextTable:
    from headrace.profiles.overview import overview_rows, overview_title
    from headrace.report.text_table import TextTable

    table = TextTable("", "", title=escape(overview_title(recording)), show_header=False)
    for name, text in overview_rows(recording, summary):
        table.add_row(name, escape(text))
    return table


def _files_table(files: Sequence[FileUse]) -> TextTable:
    from headrace.report.text_table import TextTable

    table = TextTable(title="data files")
    table.add_column("file", fold=True)
    for heading in ("size", "reads", "read", "of it once", "written"):
        table.add_column(heading, justify="right")
    for use in files:
        table.add_row(
            escape(use.path),
            format_amount(use.bytes),
            str(use.reads),
            format_amount(use.bytes_read),
            format_amount(use.bytes_unique),
            format_amount(use.bytes_written),
        )
    return table


def _show_outline(outline: ProfileOutline, *, as_json: bool) -> None:
    from headrace.profiles.outlined import amount, label, span
    from headrace.report.text_table import TextTable

    if as_json:
        typer.echo(json.dumps(outline.model_dump(), indent=1))
        return
    title = f"{outline.job}: seen from outside for {outline.duration_s:.1f} s"
    table = TextTable("figure", title=escape(title))
    for heading in ("value", "between", "source"):
        table.add_column(heading, fold=heading == "source")
    for name, figure in outline.figures.items():
        bounds = span(name, figure.low, figure.high)
        table.add_row(label(name), amount(name, figure.value), bounds, escape(figure.source))
    out.print(table)
    print_notes(outline.unknown, "unknown")


def _print_json(recording: Recording, summary: Summary) -> None:
    from headrace.verdict.recorded import verdict_of_profile

    shown = {
        **asdict(summary),
        "reuse": summary.reuse,
        "unseen": asdict(recording.unseen) if recording.unseen is not None else None,
        "notes": recording.notes,
        "verdict": asdict(verdict_of_profile(recording)),
    }
    typer.echo(json.dumps(shown, indent=1))


@app.command("show")
def show(
    profile: ProfileArgument,
    picture: Annotated[
        Path | None,
        typer.Option(help="also draw the profile into a new file: .png or .svg"),
    ] = None,
    draw: Annotated[
        bool,
        typer.Option(
            "--draw", help="also draw NAME.png next to the profile, or NAME-2.png … if that exists"
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    files: Annotated[int, typer.Option(help="number of files to list", min=0)] = 8,
) -> None:
    """Show what a recorded job did: bytes, sizes and order of reads, reuse, work between reads, and
    files. Says where its time went, what limits it, and what would change it.
    """
    from headrace.cli._output_files import check_output
    from headrace.profiles.picture import draw as draw_picture
    from headrace.profiles.places import free_path
    from headrace.profiles.steps import existing_profile, load, profile_table
    from headrace.profiles.summary import summarise
    from headrace.verdict.recorded import verdict_of_profile

    profile = existing_profile(profile, "PROFILE")
    if (outline := profile_table(str(profile))[0].outline) is not None:
        if picture is not None or draw:
            raise UsageError(
                f"{profile} is a profile in outline: it has no calls to draw",
                hint="headrace record -- COMMAND… records them",
            )
        _show_outline(outline, as_json=as_json)
        return
    recording = load(str(profile))
    if picture is not None:
        check_output(picture, "--picture")
    elif draw:
        picture = free_path(profile.with_suffix(".png"))
    if picture is not None:
        draw_picture(recording, picture)
    summary = summarise(recording)
    if as_json:
        _print_json(recording, summary)
        return
    out.print(_overview(recording, summary))
    if files and summary.files:
        out.print(_files_table(summary.files[:files]))
        if len(summary.files) > files:
            out.print(f"and {len(summary.files) - files} more")
    print_notes(recording.notes)
    for line in verdict_of_profile(recording).lines:
        out.print(line, markup=False)
    if picture is not None:
        err.print(f"picture: {escape(str(picture))}")


@app.command("import")
def import_profile(
    trace: Annotated[
        Path,
        typer.Argument(
            help="text of strace -f -ttt or darshan-dxt-parser, or CSV of the XRootD recorder"
        ),
    ],
    out_path: Annotated[
        Path | None,
        typer.Option(
            "--out", help="the profile (default: NAME.toml, or NAME-2.toml … if that exists)"
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="strace, darshan or xrootd (default: from the file's first lines)"),
    ] = None,
    hash_names: Annotated[
        bool, typer.Option("--hash-names", help="write hashes instead of the names of data files")
    ] = False,
) -> None:
    """Make a job profile from the recording of another tool."""
    from headrace.cli._output_files import check_folder_of
    from headrace.profiles.importing import read
    from headrace.profiles.places import profile_to_write
    from headrace.profiles.steps import save

    path = profile_to_write(out_path, trace.name.partition(".")[0] or "job")
    check_folder_of(path, "--out")
    recording = read(trace, path.stem, format)
    save(recording.hashed() if hash_names else recording, path)
    print_notes(recording.notes)
    err.print(f"imported: {len(recording.steps)} steps -> {escape(str(path))}")


@app.command("export")
def export_profile(
    profile: ProfileArgument,
    path: Annotated[Path, typer.Argument(help="the file to write")],
    format: Annotated[
        str, typer.Option(help="csv: every step of the job; fio: an iolog of version 3")
    ] = "csv",
    software: Annotated[
        bool, typer.Option(help="also write reads of programs and libraries")
    ] = False,
) -> None:
    """Convert a job profile for another tool."""
    from headrace.cli._output_files import check_output
    from headrace.profiles.exporting import export, left_out
    from headrace.profiles.steps import existing_profile, load

    recording = load(str(existing_profile(profile, "PROFILE")))
    check_output(path, "PATH")
    written = export(recording, path, format, software=software)
    if note := left_out(recording, format, software=software):
        print_notes([note])
    err.print(f"exported: {written} steps -> {escape(str(path))}")


@app.command("simulate")
def simulate_profile(
    profile: ProfileArgument,
    drives: Annotated[
        list[str] | None,
        typer.Option(
            "--drive",
            help="a drive of the catalog, one in each node; repeatable, to compare drives",
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="number of nodes (default: 1)", min=1)] = None,
    slots: Annotated[
        list[int] | None, typer.Option(help="jobs per node; repeatable, to compare", min=1)
    ] = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="put the drive into one NFS server for all nodes, not into each node"
        ),
    ] = False,
    link: Annotated[
        str | None, typer.Option(help="with --shared: the network (default: 10 GbE)")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="new folder for the records (default: results/NAME-TIME)"),
    ] = None,
) -> None:
    """Simulate a recorded job on many nodes and drives.

    Writes a study next to the profile, runs it in virtual time, and reports it.

    You may edit the study. Without options an existing study is run as it is. If the options
    require another study, it is written to a new file next to the existing one.
    """
    import threading

    from headrace.cli._progress import Display
    from headrace.cli._simulated_job import check_hardware, removed_if_wrong
    from headrace.library import default_results, load_study
    from headrace.profiles.places import check_name, study_to_run
    from headrace.profiles.steps import existing_profile, load, profile_table
    from headrace.profiles.study_text import drives_named_in, study_text
    from headrace.records.place import check_place
    from headrace.records.store import check_new_results
    from headrace.study.load import load_study_text
    from headrace.system.stopping import stopping_on_signals

    if link is not None and not shared:
        raise UsageError(
            f"--link {link}: goes with --shared: without it each node has a drive of its own"
        )
    profile = existing_profile(profile, "PROFILE")
    check_name(profile, "PROFILE")
    base = profile.absolute().parent
    drives = drives_named_in(base, drives or ())
    check_hardware(drives, link, base)
    text = study_text(
        profile.name,
        drives or ["seagate-exos-x24-24tb", "samsung-870-evo-1tb"],
        nodes or 1,
        slots or [1, 2, 4, 8],
        (link or "10 GbE") if shared else None,
    )
    # Check before writing the study: one that cannot run must not be left behind.
    if results is not None:
        check_place(results, "--results")
        check_new_results(results)
    if profile_table(str(profile))[0].outline is None:
        load(str(profile))
    load_study_text(text, file=Path("command line"), base=base)
    asked = bool(drives or nodes or slots or shared or link)
    study, done = study_to_run(profile, text, asked=asked)
    err.print(f"study: {escape(str(study))} ({done})")
    root = results or default_results(study)
    stop = threading.Event()
    with stopping_on_signals(stop), finish(root) as ending:
        with removed_if_wrong(study, written=done == "written"), Display() as display:
            loaded = load_study(study)
            loaded.run(root, engine="simulate", observer=display, stop=stop)
        ending.completed()
