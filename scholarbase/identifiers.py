"""Paper ids: every accepted form to one canonical identifier.

``parse`` accepts prefixed ids (``arXiv:``, ``CorpusId:``, ``DOI:``, ``ACL:``, ``PMID:``, ``PMCID:``, ``MAG:``,
``DBLP:``, ``OpenAlex:``, ``Doc:``, ``Key:``, ``UUID:``, ``URL:``), bare arXiv ids, DOIs, UUIDs and Semantic Scholar's
40-digit hexadecimal ids, and links to the sites that use them. The prefixes are those of the Semantic Scholar Graph
API, ``OpenAlex:``, ``Doc:`` for the document ids of a test collection, ``Key:`` for the citation keys of people's own
files, and ``UUID:`` for the ids of AirQA's papers; the forms of arXiv ids are those of https://info.arxiv.org/help/arxiv_identifier.html.

The functions named after a scheme (``arxiv_id``, ``doi``, ...) read one id and return None for anything else.
They are fast enough for every record of a snapshot. An arXiv id that was stored as a number, which lost its first
zero or gained digits, is repaired (``arxiv_id_from_number``) wherever ids are read. ``dois`` reads all DOIs of a field,
and ``field_ids`` a field of any scheme. Records and requests are read by the same functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from scholarbase.errors import InvalidRequest

MAX_LENGTH: Final = 2000
"""Characters of an identifier. Longer than any DOI; most links still fit."""
MAX_DOCUMENT_ID: Final = 1000
"""Characters of a collection's own document id."""

FORMS: Final = (
    "arXiv:2309.06180, arXiv:hep-th/9901001, CorpusId:13756489, DOI:10.18653/v1/P18-1001, ACL:P18-1001, "
    "PMID:19872477, PMCID:2323736, MAG:112218234, DBLP:conf/acl/LoWNKW20, OpenAlex:W2741809807, Doc:MED-10, "
    "Key:smith2020 (a citation key), URL:https://..., a UUID, a Semantic Scholar id of 40 hexadecimal digits, or a "
    "link to arXiv, Semantic Scholar, OpenAlex, doi.org, the ACL Anthology or PubMed"
)


class Identifier(NamedTuple):
    """A paper's id in one scheme, in its canonical form: equal identifiers name the same paper."""

    scheme: str
    value: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.value}"


ARCHIVES: Final = (
    "acc-phys", "adap-org", "alg-geom", "ao-sci", "astro-ph", "atom-ph", "bayes-an", "chao-dyn",
    "chem-ph", "cmp-lg", "comp-gas", "cond-mat", "cs", "dg-ga", "funct-an", "gr-qc", "hep-ex",
    "hep-lat", "hep-ph", "hep-th", "math", "math-ph", "mtrl-th", "nlin", "nucl-ex", "nucl-th",
    "patt-sol", "physics", "plasm-ph", "q-alg", "q-bio", "quant-ph", "solv-int", "supr-con",
)  # fmt: skip
"""The archives with ids from before April 2007 (https://arxiv.org/archive, and those closed since), by the alphabet."""
_ARCHIVES: Final = frozenset(ARCHIVES)

# re.ASCII: without it, \d matches Arabic digits, and ignoring case matches the Kelvin sign as k.
# The month is followed by four digits from April 2007 to December 2014, and by five since.
_ARXIV_NEW = re.compile(
    r"((?:0[89]|1[0-4])(?:0[1-9]|1[0-2])\.\d{4}|07(?:0[4-9]|1[0-2])\.\d{4}"
    r"|(?:1[5-9]|[2-9]\d)(?:0[1-9]|1[0-2])\.\d{5})(?:v\d{1,4})?",
    re.ASCII | re.IGNORECASE,
)
_ARXIV_NUMBER = re.compile(r"(\d{3,4})\.(\d{1,16})", re.ASCII)
_ARXIV_OLD = re.compile(
    r"([a-z]+(?:-[a-z]+)?)(?:\.[a-z-]+)?/(\d\d(?:0[1-9]|1[0-2])\d{3})(?:v\d{1,4})?", re.ASCII | re.IGNORECASE
)
_PLAIN_DOI = re.compile(
    r"(?:https?://(?:dx\.)?doi\.org/)?(10\.\d{3,9}(?:\.\d+)*/[a-z0-9._/:()-]*[a-z0-9])",
    re.ASCII | re.IGNORECASE,
)
"""Most DOIs. Others are unescaped and trimmed first."""
_DOI = re.compile(r"10\.\d{3,9}(?:\.\d+)*/\S+", re.ASCII)
_DOI_START = re.compile(r"(?:(?<=doi)|(?<![\w.-]))10\.\d{3,9}(?:\.\d+)*/", re.ASCII)
_BETWEEN_DOIS = re.compile(r"\s+|(?<![,;|])[,;|]+(?=https?:|(?:info:)?doi|10\.\d{3,9}(?:\.\d+)*/)", re.ASCII)
_SPACED_DOI = re.compile(
    r"(10\.) (?=\d{4})|(10\.\d{3,9}) ?/ (?=\w)|(-) (?=\d+-)| (?=<[\w.]*:[\w.:-]*>)|(>) (?=\d\.\d)", re.ASCII
)
"""Spaces within a DOI: in its prefix, at the ends of lines, and around the brackets of a SICI
(``<327::AID-ASI4>3.0.CO;2-4``, https://www.niso.org/publications/ansiniso-z3956-1996-r2002)."""
_DOI_ESCAPES = re.compile(
    r"(?P<tex>\$[<>]\$|\{?\\{1,4}text(?:less|greater)(?:\{\}|\s)?\}?|\{?\\{1,4}[_&%$#<>/]\}?)"
    r"|%(?P<hex>2[368-9a-f]|3[a-f]|40|5[bdf]|7e)|&(?P<entity>lt|gt|amp);"
)
"""What BibTeX, links and HTML write for characters of DOIs, in lower case."""
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&"}
_DOI_CHARS: Final = str.maketrans(
    dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
)
"""Characters that programs put into DOIs: without width, and dashes."""
_FRAGMENT = re.compile(r"(?<!;2-)#.*|</[a-z]+>.*")
"""A part of a page, or an end tag. The last character of a SICI can be ``#`` too."""
_END_OF_LINK = re.compile(r"[?&].*|(?:\.full)?\.(?:pdf|html?|xml)(?=[?&#]|$).*")
_PAGES: Final = (
    "/abstract", "/full", "/fulltext", "/pdf", "/epdf", "/pdfdirect", "/html", "/meta", "/summary", "/references",
)  # fmt: skip
"""What publishers write behind a DOI in links to pages about it."""
_LINKED_VERSION = re.compile(r"(10\.1101/\d[\d.]*)v\d+\b.*|(10\.1093/[^/]+/[^/]+)/\d+")
"""https://www.biorxiv.org/about/FAQ: links have a preprint's version, and those of Oxford a number of the article."""
_SHA = re.compile(r"[0-9a-f]{40}", re.IGNORECASE | re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_ACL_OLD = re.compile(r"[A-Z]\d\d-\d{4,5}", re.ASCII | re.IGNORECASE)
_ACL_NEW = re.compile(r"(?:19|20)\d\d\.[a-z0-9_]+-[a-z0-9_]+\.\d+", re.ASCII | re.IGNORECASE)
_DBLP = re.compile(r"[A-Za-z]+/[^\s/]+(?:/[^\s/]+)*", re.ASCII)
_LINK = re.compile(r"https?://([^\s/?#@:\[\]\\]+)(:\d{1,5})?(/[^\s?#]*)?(\?[^\s#]*)?(?:#\S*)?", re.IGNORECASE)
_ENDS: Final = ".,;:!?'\u2019\u201d\u00bb*\"|"
_BRACKETS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}
_STAMP: Final = re.compile(
    r"[a-z]+(?:-[a-z]+)?(?:\.[a-z-]+)?\](?:\s+\d{1,2}\s+[a-z]{3}\s+\d{4})?", re.ASCII | re.IGNORECASE
)
"""What follows ``[`` after an id in the stamp on the first page of arXiv's PDFs: its category, and a date."""
_SPACED: Final = ("arxiv", "doi", "pmid", "pmcid", "corpusid")
"""Prefixes that texts also write without a colon. The others could be words before a word or a number."""
_PREPRINT: Final = "arxiv preprint "
"""What many references write before ``arXiv:``."""
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ARXIV_DOI: Final = "10.48550/arxiv."


def _lower(text: str) -> str:
    """Lower-case the ASCII letters: the case of other letters matters in a DOI or a host."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def arxiv_id(text: str) -> str | None:
    """The canonical arXiv id, without prefix, version and subject class, or None.

    ``math.GT/0309136v2`` gives ``math/0309136``, ``2309.06180v3`` gives ``2309.06180``.
    """
    match = _ARXIV_NEW.fullmatch(text)
    if match is not None:
        return match[1]
    match = _ARXIV_OLD.fullmatch(text)
    if match is None:
        return None
    archive = match[1].lower()
    return f"{archive}/{match[2]}" if archive in _ARCHIVES else None


def arxiv_id_from_number(text: str, *, zeros: bool = True) -> str | None:
    """Repair an arXiv id that was stored as a number, or None: ``806.1945`` gives ``0806.1945``, ``1108.27``
    gives ``1108.2700`` and ``1910.0773800000002`` gives ``1910.07738``.

    Programs that store ids as floats drop zeros at both ends or add rounding errors. The month determines how many
    digits an id has, so the zeros can be restored. ``zeros`` False does not restore those at the end: in an id that
    somebody typed, any digit may be missing.
    """
    match = _ARXIV_NUMBER.fullmatch(text)
    if match is None:
        return None
    month, serial = match[1].zfill(4), match[2]
    digits = 4 if month < "1501" else 5
    if len(serial) > digits:
        number_read = float(text)
        rounded = f"{number_read:.{digits}f}"
        if abs(number_read - float(rounded)) > 1e-9:
            return None
        serial = rounded.partition(".")[2]
    if len(serial) < digits and not zeros:
        return None
    return arxiv_id(f"{month}.{serial.ljust(digits, '0')}")


def stored_arxiv_id(value: object) -> tuple[str | None, bool]:
    """The canonical arXiv id in a record, None if there is none, and whether ``arxiv_id_from_number`` repaired it.

    ``value`` is a string, or the number that a program made of the id.
    """
    text = repr(value) if type(value) is float else value.strip() if isinstance(value, str) else ""
    canonical = arxiv_id(text)
    if canonical is None:
        canonical = arxiv_id_from_number(text)
        return canonical, canonical is not None
    return canonical, False


def stored_identifier(text: str) -> Identifier | None:
    """The identifier in a record, None if it is not a valid one. An arXiv id is repaired as by ``stored_arxiv_id``."""
    canonical, _ = stored_arxiv_id(text)
    if canonical is not None:
        return Identifier("arXiv", canonical)
    try:
        return parse(text)
    except InvalidRequest:
        return None


def repaired_arxiv_id(text: str) -> str | None:
    """The canonical arXiv id of an id as a request writes it, repaired if only one id can be meant, or None."""
    return arxiv_id(text) or arxiv_id_from_number(text, zeros=False)


def doi(text: str) -> str | None:
    """The DOI in lower case, without its prefix or link, or None: the first one if the text is several DOIs.

    DOIs don't distinguish the case of ASCII letters.
    """
    parts = _doi_parts(text)
    return parts[0] if parts and None not in parts else None


def dois(text: str) -> list[str]:
    """All DOIs of a field, each once, in lower case, without prefixes, links and the punctuation around them.

    DOIs may be escaped as in links, HTML and BibTeX (``%3C``, ``&lt;``, ``\\_``), and separated by spaces, commas or
    semicolons before the next one: a DOI itself may have both (``10.1659/0276-4741(2004)024[0141:SPOCMP]2.0.CO;2``).
    """
    valid = [part for part in _doi_parts(text) if part is not None]
    return list(dict.fromkeys(valid)) if len(valid) > 1 else valid


def _doi_parts(text: str) -> list[str | None]:
    """The DOI of each part of a field, None for parts without one."""
    plain = _PLAIN_DOI.fullmatch(text)
    if plain is not None:
        value = plain[1].lower()
        if not value.endswith(_PAGES) and not value.startswith(("10.1101/", "10.1093/")):
            return [value]
    if "10." not in text:
        return []
    spaced = " ".join(_unescaped(_lower(text)).split())
    joined = _SPACED_DOI.sub(_without_space, spaced)
    return [_doi_in(part) for part in _BETWEEN_DOIS.split(joined) if part]


def _without_space(match: re.Match[str]) -> str:
    start, prefix, hyphen, bracket = match.groups(default="")
    return f"{prefix}/" if prefix else start or hyphen or bracket


def _doi_in(part: str) -> str | None:
    start = _DOI_START.search(part) if len(part) <= MAX_LENGTH else None
    if start is None:
        return None
    value = _FRAGMENT.sub("", part[start.start() :])
    if "://" in part[: start.start()]:
        value = _END_OF_LINK.sub("", value)
    before = ""
    while value != before:
        before = value
        value = trimmed(value).rstrip("/")
        for page in _PAGES:
            value = value.removesuffix(page)
    value = _LINKED_VERSION.sub(r"\1\2", value)
    return value if _DOI.fullmatch(value) is not None and value.isprintable() else None


def _unescaped(text: str) -> str:
    """The text of a field in lower case without escapes; empty if it has escapes of escapes without end."""
    text = text.translate(_DOI_CHARS) if not text.isascii() else text
    for _ in range(4):
        plain = _DOI_ESCAPES.sub(_unescape, text)
        if plain == text:
            return text
        text = plain
    return ""


def _unescape(match: re.Match[str]) -> str:
    if match["hex"] is not None:
        return chr(int(match["hex"], 16))
    if match["entity"] is not None:
        return _ENTITIES[match["entity"]]
    name = match["tex"].strip("{}$\\ ")
    return {"textless": "<", "textgreater": ">", "": "$"}.get(name.rstrip("{} "), name)


def trimmed(name: str) -> str:
    """An id or link without the punctuation of the sentence around it: brackets that it does not open, too."""
    while name:
        opening = _BRACKETS.get(name[-1])
        if name[-1] not in _ENDS and (opening is None or name.count(opening) >= name.count(name[-1])):
            break
        name = name[:-1]
    return name


def arxiv_id_from_doi(text: str) -> str | None:
    """The arXiv id in one of arXiv's own DOIs (``10.48550/arXiv.2309.06180``, in any case), or None."""
    value = _lower(text)
    return arxiv_id(value[len(_ARXIV_DOI) :]) if value.startswith(_ARXIV_DOI) else None


def sha(text: str) -> str | None:
    """Semantic Scholar's id of 40 hexadecimal digits in lower case, or None."""
    return text.lower() if len(text) == 40 and _SHA.fullmatch(text) is not None else None


def uuid(text: str) -> str | None:
    """A UUID (RFC 9562) in lower case, or None."""
    return text.lower() if len(text) == 36 and _UUID.fullmatch(text) is not None else None


def number(text: str) -> str | None:
    """A positive whole number of up to 18 digits (corpus id, PMID, MAG id) without leading zeros, or None."""
    if len(text) > 18 or not text.isascii() or not text.isdigit():
        return None
    return text.lstrip("0") or None


def pmid(text: str) -> str | None:
    """The digits of a PubMed id, with or without ``PMID``, or None."""
    return number(text[4:].lstrip(": ") if text[:4].upper() == "PMID" else text)


def pmcid(text: str) -> str | None:
    """The digits of a PubMed Central id, with or without ``PMC`` and ``PMCID``, or None."""
    if text[:5].upper() == "PMCID":
        text = text[5:].lstrip(": ")
    return number(text[3:] if text[:3].upper() == "PMC" else text)


def acl_id(text: str) -> str | None:
    """An ACL Anthology id (``P18-1001``, ``2020.acl-main.447``), or None."""
    if _ACL_OLD.fullmatch(text) is not None:
        return text.upper()
    return text.lower() if _ACL_NEW.fullmatch(text) is not None else None


def dblp_key(text: str) -> str | None:
    """A DBLP record key such as ``conf/acl/LoWNKW20``, whose case matters, or None."""
    return text if _DBLP.fullmatch(text) is not None else None


def openalex_id(text: str) -> str | None:
    """An OpenAlex work's id (``W2741809807``) with a capital letter and without leading zeros, or None."""
    digits = number(text[1:]) if text[:1] in ("W", "w") else None
    return None if digits is None else f"W{digits}"


def document_id(text: str) -> str | None:
    """A collection's own document id (``MED-10``), unchanged: printable, without white space; or None."""
    whole = 0 < len(text) <= MAX_DOCUMENT_ID and text.isprintable() and " " not in text
    return text if whole else None


def citation_key(text: str) -> str | None:
    """A citation key, whose case matters, in Unicode's form NFC; None if it is empty, too long or no name."""
    key = unicodedata.normalize("NFC", " ".join(text.split()))
    is_key = 0 < len(key) <= MAX_DOCUMENT_ID and key.isprintable() and key.strip(".") != ""  # no path
    return key if is_key else None


_READERS: Final[dict[str, tuple[str, Callable[[str], str | None], str]]] = {
    "arxiv": (
        "arXiv",
        repaired_arxiv_id,
        "YYMM.NNNNN with a month from 01 to 12 (four digits after the point up to 1412), or like hep-th/9901001",
    ),
    "corpusid": ("CorpusId", number, "a positive whole number"),
    "doi": ("DOI", doi, "10., a registrant's number, a slash and a suffix, such as 10.18653/v1/P18-1001"),
    "acl": ("ACL", acl_id, "like P18-1001 or 2020.acl-main.447"),
    "pmid": ("PMID", pmid, "a positive whole number"),
    "pmcid": ("PMCID", pmcid, "a positive whole number, with or without PMC before it"),
    "mag": ("MAG", number, "a positive whole number"),
    "dblp": ("DBLP", dblp_key, "a record key such as conf/acl/LoWNKW20"),
    "openalex": ("OpenAlex", openalex_id, "W and a positive whole number"),
    "doc": (
        "Doc",
        document_id,
        f"a collection's own document id, up to {MAX_DOCUMENT_ID} printable characters without white space",
    ),
    "key": ("Key", citation_key, f"a citation key of up to {MAX_DOCUMENT_ID} printable characters"),
    "sha": ("sha", sha, "40 hexadecimal digits"),
    "uuid": ("UUID", uuid, "hexadecimal digits in groups of 8, 4, 4, 4 and 12"),
}


def parse(text: str, *, keys: bool = False) -> Identifier:
    """The identifier of an id of any form. ``parse(str(identifier))`` returns the same identifier.
    With ``keys`` a text without spaces and of no other form is a citation key, as if it started with ``Key:``.

    Raises:
        InvalidRequest: the text is not an accepted form, which the message lists.
    """
    if not isinstance(text, str):
        raise InvalidRequest(f"{text!r} is not a valid paper id: it must be a string, such as {FORMS}.")
    if len(text) > MAX_LENGTH:
        raise InvalidRequest(
            f"The paper id {text[:40]!r}... has {len(text)} characters: the maximum is {MAX_LENGTH}."
        )
    name = text.strip()
    if not name:
        raise InvalidRequest(f"The paper id is empty: use a form such as {FORMS}.")
    if not name.isprintable():
        raise InvalidRequest(f"The paper id {name!r} contains a character that cannot be printed: remove it.")
    if name[: len(_PREPRINT)].lower() == _PREPRINT:
        name = name[len(_PREPRINT) :].lstrip()
    identifier = _bare(name) or _spaced(name) or _prefixed(name)
    if identifier is not None:
        return identifier
    if name.isascii() and name.isdigit():
        raise InvalidRequest(
            f"The paper id {name!r} is a number without its scheme: "
            f"write CorpusId:{name}, PMID:{name} or MAG:{name}, and Key:{name} for a citation key."
        )
    if keys and not any(map(str.isspace, name)) and (key := citation_key(name)) is not None:
        return Identifier("Key", key)
    raise InvalidRequest(f"{name!r} is not a valid paper id: use a form such as {FORMS}.{_repair_hint(name)}")


def _identifier(scheme: str, value: str | None) -> Identifier | None:
    """The identifier of a value, None without one. One of arXiv's own DOIs is the arXiv id in it."""
    if value is None:
        return None
    return from_doi(value) if scheme == "DOI" else Identifier(scheme, value)


def _bare(name: str) -> Identifier | None:
    """An id whose form identifies its scheme without a prefix."""
    value = repaired_arxiv_id(name)
    if value is not None:
        return Identifier("arXiv", value)
    if name[:3] == "10." or name[:1] == "<":
        return _identifier("DOI", doi(name))
    if name[:3].upper() == "PMC":
        return _identifier("PMCID", pmcid(name))
    return _identifier("sha", sha(name)) or _identifier("UUID", uuid(name))


def _spaced(name: str) -> Identifier | None:
    """An id after a prefix without a colon: ``arXiv 2309.06180``."""
    prefix, _, rest = name.partition(" ")
    if prefix.lower() not in _SPACED:
        return None
    scheme, read, _ = _READERS[prefix.lower()]
    rest = rest.strip()
    return _identifier(scheme, read(_unstamped(rest) if scheme == "arXiv" else rest))


def _unstamped(text: str) -> str:
    """An arXiv id without the rest of arXiv's stamp: ``1706.03762v5 [cs.CL] 6 Dec 2017``."""
    unstamped, bracket, rest = text.partition("[")
    return unstamped.rstrip() if bracket and _STAMP.fullmatch(rest) else text


def _prefixed(name: str) -> Identifier | None:
    prefix, colon, rest = name.partition(":")
    prefix, rest = prefix.lower(), rest.strip()
    if prefix in ("http", "https"):
        return _from_link(name)
    if not colon or prefix not in (*_READERS, "url"):
        host = name.partition("/")[0].lower()
        if host.removeprefix("www.") in _SITES:
            return _from_link(f"https://{name}")
        return _identifier("DOI", doi(name))  # doi.acm.org/10.1145/1137627.1137631, info:doi/10.1000/182
    if prefix == "url":
        return _from_link(rest if "://" in rest else f"https://{rest}")
    scheme, read, expected = _READERS[prefix]
    identifier = _identifier(scheme, read(_unstamped(rest) if scheme == "arXiv" else rest))
    if identifier is not None:
        return identifier
    if rest[:4].lower() == "http":
        linked = _from_link(rest)
        if linked.scheme == scheme or (scheme, linked.scheme) == ("DOI", "arXiv"):
            return linked
    hint = _repair_hint(rest) if scheme == "arXiv" else ""
    raise InvalidRequest(f"{rest!r} in {name!r} is not a valid {scheme} id: it must be {expected}.{hint}")


def _repair_hint(text: str) -> str:
    """A sentence with the arXiv id that a number may mean, or nothing."""
    repaired = arxiv_id_from_number(text)
    return f" Perhaps arXiv:{repaired} is meant." if repaired else ""


def from_doi(value: str) -> Identifier:
    """A DOI, or the arXiv id in one of arXiv's own DOIs."""
    inner = arxiv_id_from_doi(value)
    return Identifier("DOI", value) if inner is None else Identifier("arXiv", inner)


def _from_link(text: str) -> Identifier:
    """The identifier in a link to a known site, else the link itself.

    https and http are the same, and so are links with and without a trailing slash, fragment or default port.
    """
    match = _LINK.fullmatch(text)
    host = _lower(match[1]) if match else ""
    if match is None or "." not in host.strip("."):
        raise InvalidRequest(
            f"{text!r} is not a valid link: use a form such as https://arxiv.org/abs/2309.06180."
        )
    port = "" if match[2] in (None, ":80", ":443") else match[2]
    path = (match[3] or "").rstrip("/")
    query = match[4] if match[4] not in (None, "?") else ""
    read = _SITES.get(host.removeprefix("www.")) if not port else None
    if read is not None:
        identifier = read(unquote(path).strip("/"))
        if identifier is not None:
            return identifier
    if (value := doi(text)) is not None:
        return from_doi(value)
    return Identifier("URL", f"https://{host}{port}{path}{query}")


# One function per site: from the path of a link, without slashes at its ends, to the paper's id. None if the page is
# not about one paper: the link itself is then the id. An invalid id in such a path raises InvalidRequest.


def _arxiv_site(path: str) -> Identifier | None:
    kind, _, rest = path.partition("/")
    if kind.lower() not in ("abs", "pdf", "html", "ps", "format", "src", "e-print", "overview"):
        return None
    rest = re.sub(r"\.(?:pdf|ps|html|md)(?:\.gz)?$", "", rest, flags=re.IGNORECASE)
    return parse(f"arXiv:{rest}")


def _arxiv_copy(path: str) -> Identifier | None:
    """A page of another site about one of arXiv's papers: ``papers/2309.06180``."""
    kind, _, rest = path.partition("/")
    return _identifier("arXiv", arxiv_id(rest)) if kind in ("papers", "arxiv") else None


def _semantic_scholar_site(path: str) -> Identifier | None:
    parts = path.split("/")
    if parts[0] == "arxiv":
        return _arxiv_copy(path)
    if parts[0] in ("paper", "reader"):
        return _identifier("sha", next(filter(None, map(sha, parts[1:4])), None))
    return _identifier("CorpusId", number(parts[1])) if parts[0] == "p" and len(parts) > 1 else None


def _semantic_scholar_api(path: str) -> Identifier | None:
    if path[:9].lower() == "corpusid:":
        return parse(path)
    if path.startswith("graph/v1/paper/"):
        name = path.removeprefix("graph/v1/paper/")
        if name == "batch" or name.startswith(("search", "autocomplete")):
            return None
        return parse(re.sub(r"/(?:citations|references|authors)$", "", name))
    return None


def _openalex_site(path: str) -> Identifier | None:
    return _identifier("OpenAlex", openalex_id(path.removeprefix("works/")))


def _acl_site(path: str) -> Identifier | None:
    parts = path.removeprefix("anthology/").removeprefix("papers/").split("/")
    return _identifier("ACL", acl_id(re.sub(r"\.(?:pdf|bib|xml|endf)$", "", parts[0])))


def _pubmed_site(path: str) -> Identifier | None:
    parts = path.split("/")
    if len(parts) > 1 and parts[0] == "pubmed":
        parts = parts[1:]
    return _identifier("PMID", number(parts[0])) or _pmc_site(path)


def _pmc_site(path: str) -> Identifier | None:
    parts = path.removeprefix("pmc/").split("/")
    has_article = len(parts) > 1 and parts[0] in ("articles", "article")
    return _identifier("PMCID", pmcid(parts[1])) if has_article else None


def _dblp_site(path: str) -> Identifier | None:
    if not path.startswith("rec/") or not path.isprintable():
        return None
    return _identifier("DBLP", dblp_key(re.sub(r"\.(?:html|bib|xml)$", "", path[4:])))


_SITES: Final[dict[str, Callable[[str], Identifier | None]]] = {
    "arxiv.org": _arxiv_site,
    "export.arxiv.org": _arxiv_site,
    "ar5iv.org": _arxiv_site,
    "ar5iv.labs.arxiv.org": _arxiv_site,
    "alphaxiv.org": _arxiv_site,
    "huggingface.co": _arxiv_copy,
    "hf.co": _arxiv_copy,
    "arxiv-vanity.com": _arxiv_copy,
    "scirate.com": _arxiv_copy,
    "semanticscholar.org": _semantic_scholar_site,
    "pdfs.semanticscholar.org": _semantic_scholar_site,
    "api.semanticscholar.org": _semantic_scholar_api,
    "openalex.org": _openalex_site,
    "api.openalex.org": _openalex_site,
    "aclanthology.org": _acl_site,
    "aclanthology.info": _acl_site,
    "aclweb.org": _acl_site,
    "pubmed.ncbi.nlm.nih.gov": _pubmed_site,
    "ncbi.nlm.nih.gov": _pubmed_site,
    "pmc.ncbi.nlm.nih.gov": _pmc_site,
    "dblp.org": _dblp_site,
    "dblp.uni-trier.de": _dblp_site,
}
