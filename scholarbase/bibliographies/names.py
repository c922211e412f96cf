"""Names of people: the surname, in any of the usual orders."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SUFFIXES: Final = frozenset({"jr", "sr", "ii", "iii", "iv", "phd", "md"})
_INITIALS: Final = re.compile(r"(?:[^\W\d_]\.?-?){1,4}")
_AND: Final = re.compile(r"\s(?:and|AND)\s|\s?;\s?")
_OTHERS: Final = re.compile(r"\W{0,3}(?:others|et\.? ?al\.?|\.\.\.|\u2026)\W{0,3}", re.IGNORECASE)


_GROUPS: Final = frozenset(
    (
        "collaboration",
        "collaborations",
        "consortium",
        "group",
        "team",
        "committee",
        "project",
        "society",
        "institute",
    )
)
"""Last words of names of groups, in lower case."""


class NameParts(NamedTuple):
    """A name in parts. A group, and a person with one name, have only a ``family``."""

    family: str
    given: str = ""
    suffix: str = ""

    @property
    def inverted(self) -> str:
        """``Family, Given, Suffix``, or the name of a group."""
        return ", ".join(filter(None, self))


def name_parts(name: str) -> NameParts:
    """The parts of ``Given Family Suffix`` or ``Family, Given``. Particles in lower case are of the family name."""
    family, comma, rest = name.partition(",")
    if comma and family.strip() and rest.strip():
        given, _, last = (part.strip() for part in rest.partition(","))
        given, suffix = (last, given) if _is_suffix(given) else (given, last)
        return NameParts(family.strip(), given, suffix)
    words = name.split()
    if len(words) < 2 or words[-1].strip("()").lower() in _GROUPS or words[0].lower() == "the":
        return NameParts(" ".join(words))
    suffix = words.pop() if len(words) > 2 and _is_suffix(words[-1]) else ""
    begin = len(words) - 1
    while begin > 1 and words[begin - 1].islower() and words[begin - 1].isalpha():
        begin -= 1
    return NameParts(" ".join(words[begin:]), " ".join(words[:begin]), suffix)


def surname(name: str) -> str:
    """The surname of ``Surname, First``, ``First M. Surname`` or ``Surname FM``, with particles only before a comma."""
    last, comma, _ = name.partition(",")
    if comma and last.strip():
        return last.strip()
    parts = [part for part in name.split() if part.strip(".").lower() not in _SUFFIXES]
    if not parts:
        return name.strip()
    if len(parts) > 1 and _is_initials(parts[-1]) and not _is_initials(parts[0]):
        return " ".join(part for part in parts if not _is_initials(part))
    return parts[-1]


def display_name(name: str) -> str:
    """A name in its spoken order: ``Jean de La Fontaine Jr`` for ``de La Fontaine, Jr, Jean``."""
    last, *others = (part.strip() for part in name.split(",", 2))
    suffixes = [part for part in others if _is_suffix(part)]
    first = ", ".join(part for part in others if not _is_suffix(part))
    return " ".join(" ".join((first, last, *suffixes)).split())


def split_keywords(text: str) -> tuple[str, ...]:
    """The distinct keywords in a list with semicolons or, without any, with commas."""
    parts = text.split(";" if ";" in text else ",")
    return tuple(dict.fromkeys(word for part in parts if (word := " ".join(part.split()))))


def _is_suffix(part: str) -> bool:
    return part.strip(".").lower() in _SUFFIXES


def _is_initials(part: str) -> bool:
    return (
        len(part) <= 8
        and part == part.upper()
        and _INITIALS.fullmatch(part) is not None
        and ("." in part or len(part) <= 3)
    )


def split_names(text: str) -> tuple[list[str], bool]:
    """The names in a list with ``and`` or semicolons, and whether it ends with others."""
    names = [name.strip() for name in _AND.split(text) if name.strip()]
    people = [name for name in names if not _OTHERS.fullmatch(name)]
    return people, len(people) < len(names)
