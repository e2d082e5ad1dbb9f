"""Offers of a decision: from a file, from a study, completed by the catalog's dated prices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.analysis.read import Records
from headrace.catalog import entry, names
from headrace.document import Document, read_document
from headrace.errors import FileProblem, RefusedError, StudyError
from headrace.file_kinds import check_kind
from headrace.offers import DriveOffer as DriveOffer
from headrace.offers import MachineOffer as MachineOffer
from headrace.offers import Offer as Offer
from headrace.offers import Offers as Offers
from headrace.offers import catalog_price
from headrace.validation import Problems


def load_offers(file: Path) -> Offers:
    """Return the offers of a file. Raises StudyError with every problem by line and field."""
    return offers_of(read_document(file))


def offers_of(document: Document) -> Offers:
    """Return the offers of a document. Raises StudyError with every problem by line and field."""
    check_kind(document, "offers")
    problems = Problems(document)
    offers = problems.validated((), document.values, Offers)
    if offers is None:
        raise StudyError(problems.found)
    return offers


def priced_offers(file: Path | None, sets: Sequence[Records]) -> Offers:
    """Return the offers of a file, or else of the studies of the result sets, completed by the
    catalog's prices; the catalog's alone where there are none.

    Raises StudyError with every problem of a file, RefusedError when the studies' offers differ.
    """
    given = load_offers(file) if file is not None else None
    given = given or _offers_of_studies([records.root / "study.toml" for records in sets])
    if given is not None:
        return with_catalog(given)
    parts = [items for records in sets for items in records.trials["inventory"]]
    return catalog_offers([each.name for items in parts for each in items or ()])


def _offers_of_studies(files: Sequence[Path]) -> Offers | None:
    """Return the `[offers]` of the studies stored with results, None where none has any.

    Raises RefusedError when two of them differ, StudyError as `load_offers` does.
    """
    found: dict[Path, Offers] = {}
    for file in files:
        try:
            document = read_document(file)
        except StudyError:
            continue  # the records say what was run without it
        table = document.values.get("offers")
        if table is not None:
            found[file] = offers_of(Document(file, table, document.raw, ("offers",)))
    if len(set(map(repr, found.values()))) > 1:
        raise RefusedError(
            "these studies have different [offers]: " + ", ".join(map(str, found)),
            hint="--offers FILE names those that count",
        )
    return next(iter(found.values()), None)


def with_catalog(offers: Offers) -> Offers:
    """Return the offers with the catalog's price of every drive that they do not name, where its
    currency is theirs or has a rate."""
    added = {
        name: offer
        for name, offer in _catalog_drives().items()
        if name not in offers.drive and offer.currency in (offers.currency, *offers.rates)
    }
    return offers.model_copy(update={"drive": {**added, **offers.drive}})


def catalog_offers(drives: Sequence[str] = ()) -> Offers:
    """Return the catalog's dated prices as offers, in one of their currencies: the one in which
    most of these drives have a price, of all drives when none is given."""
    priced = _catalog_drives()
    every = [str(priced[name].currency) for name in (drives or priced) if name in priced]
    if not every:
        return Offers.model_validate({})
    main = max(dict.fromkeys(every), key=every.count)
    return with_catalog(Offers.model_validate({"currency": main}))


def _catalog_drives() -> dict[str, DriveOffer]:
    """Return the catalog's prices, each for the drive that it names."""
    drives = (entry("prices", name).table.drive for name in names("prices"))
    priced = {drive: catalog_price(drive) for drive in drives if drive is not None}
    return {
        drive: DriveOffer.model_validate(price).mark_of_catalog() for drive, price in priced.items()
    }


def refuse(file: Path, field: str, given: object, problem: str, allowed: str = "") -> StudyError:
    """Return the error for one problem of a command line or file that has no line."""
    return StudyError([FileProblem(file, 0, field, str(given), problem, allowed)])
