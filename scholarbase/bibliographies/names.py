"""Names of people: the surname, in any of the usual orders."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from scholarbase.markup.html import decode_entities

_SUFFIXES: Final = frozenset({"jr", "sr", "ii", "iii", "iv", "phd", "md"})
_INITIALS: Final = re.compile(r"(?:[^\W\d_]\.?-?){1,4}")
_AND: Final = re.compile(r"(?:^|(?<=\s))and(?=\s|$)|;", re.IGNORECASE)
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_OTHERS: Final = re.compile(r"\W{0,3}(?:others|et\.? ?al\.?|\.\.\.|\u2026)\W{0,3}", re.IGNORECASE)
_OTHERS_BEHIND: Final = re.compile(r"[\s,]{1,4}et\.? ?al\.?$", re.IGNORECASE)

_GROUPS: Final = frozenset(
    {
        "administration", "agency", "alliance", "association", "center", "centre", "collaboration", "collaborations",
        "college", "commission", "committee", "company", "consortium", "corp", "corporation", "council", "department",
        "foundation", "gmbh", "group", "inc", "initiative", "institute", "institution", "laboratories", "laboratory",
        "lab", "labs", "llc", "ltd", "ministry", "network", "organisation", "organization", "project", "research",
        "society", "team", "trust", "university",
    }
)  # fmt: skip
"""Last words of names of groups, in lower case."""
_GROUP_WORDS: Final = frozenset({"&", "and", "for", "für", "og", "och", "of", "pour", "the", "und"})
"""Words within names of groups, and of no person."""


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
    if is_group(name):
        return NameParts(" ".join(ungrouped(name).split()))
    family, comma, rest = name.partition(",")
    if comma and family.strip() and rest.strip():
        given, _, last = (part.strip() for part in rest.partition(","))
        given, suffix = (last, given) if _is_suffix(given) else (given, last)
        return NameParts(family.strip(), given, suffix)
    words = name.split()
    if len(words) < 2:
        return NameParts(" ".join(words))
    suffix = words.pop() if len(words) > 2 and _is_suffix(words[-1]) else ""
    begin = len(words) - 1
    while begin > 1 and words[begin - 1].islower() and words[begin - 1].isalpha():
        begin -= 1
    return NameParts(" ".join(words[begin:]), " ".join(words[:begin]), suffix)


_KEYS: Final = {
    "family": ("family", "lastname", "last", "familyname", "surname"),
    "given": ("given", "firstname", "first", "givenname", "givennames", "forename"),
    "literal": ("literal", "displayname", "fullname", "name", "rawauthorname"),
    "suffix": ("suffix",),
    "particle": ("nondroppingparticle",),
    "dropping": ("droppingparticle",),
}
"""The keys of the parts of a name in JSON, in lower case without marks."""


def name_of(person: Mapping[str, Any]) -> str:
    """The name in an object of JSON of CSL-JSON, Zotero, OpenAlex and others: ``Family, Given, Suffix``, or the
    whole name. A particle that is dropped follows the given name."""
    author = person.get("author")
    known = {**person, **(author if isinstance(author, dict) else {})}
    known = {re.sub("[_-]", "", key).lower(): value for key, value in known.items()}
    part = {
        name: next((text.strip() for key in keys if isinstance(text := known.get(key), str) and text), "")
        for name, keys in _KEYS.items()
    }
    family = f"{part['particle']} {part['family']}".strip()
    given = f"{part['given']} {part['dropping']}".strip()
    if family and given:
        return ", ".join(filter(None, (family, given, part["suffix"])))
    return family or part["literal"] or given


def authors_in(people: Sequence[Any]) -> list[Any]:
    """The authors among the creators of an item of Zotero; all people, if it has none."""
    authors = [
        person for person in people if isinstance(person, dict) and person.get("creatorType") == "author"
    ]
    return authors or list(people)


def is_group(name: str) -> bool:
    """Whether a name is that of a group: it is in braces, as :attr:`.Reference.authors` has those that their source
    marks as such, or has words of groups."""
    words = name.lower().replace(",", " ").split()
    return in_braces(name) or (
        len(words) > 1
        and (
            words[-1].strip("().") in _GROUPS or words[0] == "the" or not _GROUP_WORDS.isdisjoint(words[1:-1])
        )
    )


def in_braces(text: str) -> bool:
    """Whether the brace at the start of the text is closed at its end."""
    return text[:1] == "{" and _groups(text)[:1] == [(0, len(text))]


def ungrouped(name: str) -> str:
    """A name without the braces of a group."""
    return name[1:-1] if in_braces(name) else name


def outside_braces(text: str) -> str:
    """The text with ``_`` in place of the characters in braces."""
    pieces, last = [], 0
    for start, end in _groups(text):
        pieces += [text[last:start], "_" * (end - start)]
        last = end
    return "".join((*pieces, text[last:]))


def _groups(text: str) -> list[tuple[int, int]]:
    """Where the outermost pairs of braces start and end."""
    groups: list[tuple[int, int]] = []
    depth = start = 0
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            start = start if depth else match.start()
            depth += 1
        elif match[0] == "}" and depth:
            depth -= 1
            if not depth:
                groups.append((start, match.end()))
    return groups


def surname(name: str) -> str:
    """The surname of ``Surname, First``, ``First M. Surname`` or ``Surname FM``, with particles only before a comma."""
    name = ungrouped(name)
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
    if in_braces(name):
        return " ".join(ungrouped(name).split())
    last, *others = (part.strip() for part in name.split(",", 2))
    suffixes = [part for part in others if _is_suffix(part)]
    first = ", ".join(part for part in others if not _is_suffix(part))
    return " ".join(" ".join((first, last, *suffixes)).split())


def split_keywords(text: str) -> tuple[str, ...]:
    """The distinct keywords in a list with semicolons or, without any, with commas."""
    text = decode_entities(text)
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
    """The names in a list with ``and`` or semicolons outside braces, and whether it ends with others."""
    text, pieces, start = decode_entities(text), [], 0
    for match in _AND.finditer(outside_braces(text)):
        pieces.append(text[start : match.start()])
        start = match.end()
    names = [name for piece in (*pieces, text[start:]) if (name := piece.strip())]
    people = [_OTHERS_BEHIND.sub("", name) for name in names if not _OTHERS.fullmatch(name)]
    return people, people != names


def listed_names(text: str) -> list[str]:
    """The names in a list with semicolons, bars or ``and``, else with commas between whole names; or in a list as
    Python writes it."""
    if text[:2] in ("['", '["') and text[-2:] in ("']", '"]'):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return [name for part in literal_eval(text) if (name := part.strip())]
    names, _ = split_names(text.replace("|", ";"))
    if len(names) == 1 and not in_braces(names[0]):
        parts = [part.strip() for part in names[0].split(",")]
        if len(parts) > 1 and all(" " in part for part in parts):
            return parts
    return names
