"""Types of columns that hold one number, or one list of numbers, per event, as ROOT names them."""

from __future__ import annotations

import re

_PLAIN = {
    "Bool_t": "bool",
    "Char_t": "char",
    "UChar_t": "unsigned char",
    "Short_t": "short",
    "UShort_t": "unsigned short",
    "Int_t": "int",
    "UInt_t": "unsigned int",
    "Long_t": "long",
    "ULong_t": "unsigned long",
    "Long64_t": "long long",
    "ULong64_t": "unsigned long long",
    "Float_t": "float",
    "Double_t": "double",
    "Float16_t": "float",  # fewer bytes on disk
    "Double32_t": "double",
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long",
    "uint64_t": "unsigned long",
}
"""C++'s types by ROOT's and the standard library's names, without `std::`."""

NUMBERS = tuple(dict.fromkeys(_PLAIN.values()))
"""C++'s types of numbers that are read."""

_NUMBER = "|".join(
    re.escape(name)
    for name in sorted({*_PLAIN, *(f"std::{name}" for name in _PLAIN), *_PLAIN.values()})
)
_NUMBERS = re.compile(rf"({_NUMBER})|ROOT::VecOps::RVec<({_NUMBER})>|(?:std::)?vector<({_NUMBER})>")


def numbers_of(said: str) -> str | None:
    """Return C++'s name of a column's type: `float` or `list of float`; None for other types."""
    number = _NUMBERS.fullmatch(said)
    if number is None:
        return None
    text = next(text for text in number.groups() if text)
    plain = _PLAIN.get(text.removeprefix("std::"), text)
    return plain if said == text else f"list of {plain}"
