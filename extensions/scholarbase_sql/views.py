"""The views that SQL statements read, as data: their columns, the SQL behind each, and their descriptions.

A statement sees temporary views over three databases: the catalogue, the full texts (``texts``) and the keys
(:func:`.sql.build_keys`), which have every paper's canonical id. With ``as_of`` a view has only papers that had
appeared by then. ``metadata``, ``images``, ``chunks`` and ``references`` have the names and columns of AirQA's
environment (https://arxiv.org/abs/2509.16952), and ``pages``, ``sections`` and ``tables`` those of both.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple


class Column(NamedTuple):
    """A column: its SQL, and whether it is null with ``as_of``, because only the snapshot's own day knows it."""

    name: str
    type: str
    about: str
    sql: str
    is_later: bool = False


class View(NamedTuple):
    """A view: ``source`` is what follows FROM, where ``{known:i}`` limits the papers of ``i`` to those by ``as_of``."""

    name: str
    about: str
    columns: tuple[Column, ...]
    source: str


_PAPER: Final = Column(
    "paper_id", "TEXT", "The paper's canonical id, such as arXiv:hep-th/9301068.", "i.paper_id"
)
_REF_PAPER: Final = Column("ref_paper_id", "TEXT", "The same as paper_id.", "i.paper_id")
_DOCUMENT: Final = Column("document_id", "INTEGER", "The document in documents.", "d.id")
_AUTHORS: Final = "(SELECT json_group_array(value ->> 0) FROM json_each(p.authors))"
_CATEGORIES: Final = """iif(p.categories IS NULL, '[]', '["' || replace(p.categories, ' ', '","') || '"]')"""
_VENUE: Final = "coalesce((SELECT v.name FROM catalogue.venues v WHERE v.venue_id = p.venue_id), p.venue)"
_TAGS: Final = (
    f"(SELECT json_group_array(value) FROM (SELECT value FROM json_each({_CATEGORIES}) UNION ALL "
    "SELECT value FROM json_each(p.details, '$.fields_of_study')))"
)
_PAGES: Final = (
    "(SELECT max(g.number) FROM texts.pages g JOIN texts.documents d ON g.document = d.id "
    "WHERE d.paper = p.id)"
)
_ABSTRACT: Final = "(SELECT a.abstract FROM catalogue.abstracts a WHERE a.paper_id = p.id)"
_CATALOGUE: Final = "keys.ids i JOIN catalogue.papers p ON p.id = i.paper WHERE {known:i}"
_CAPTION: Final = (
    "CASE WHEN instr(f.caption, f.label) = 1 THEN f.caption ELSE trim(f.label || ': ' || f.caption, ': ') END"
)
_NUMBER: Final = Column(
    "number",
    "TEXT",
    "The number in the label, such as 3, S1 or II.",
    "nullif(substr(f.label, length(rtrim(f.label, replace(f.label, ' ', ''))) + 1), f.label)",
)
_BOX: Final = "iif(f.x IS NULL, NULL, json_array(f.x, f.y, f.width, f.height))"


def _start_page(column: str) -> str:
    """The last page that begins before a part ``s`` does, or with it."""
    return (
        f"(SELECT q.{column} FROM texts.pages g JOIN keys.pages q ON q.document = g.document AND "
        "q.number = g.number WHERE g.document = s.document AND g.start <= s.start ORDER BY g.number DESC LIMIT 1)"
    )


def _parts(table: str, alias: str) -> str:
    """FROM for a table of documents' parts."""
    return (
        f"texts.{table} {alias} JOIN texts.documents d ON d.id = {alias}.document "
        "JOIN keys.ids i ON i.paper = d.paper"
    )


def _figures(kind: str) -> str:
    keyed = "LEFT JOIN keys.figures k ON k.document = f.document AND k.place = f.place"
    return f"{_parts('figures', 'f')} {keyed} WHERE f.kind = '{kind}' AND {{known:i}}"


def _offsets(alias: str) -> tuple[Column, Column]:
    return (
        Column(
            "start_offset",
            "INTEGER",
            "Where it starts in the document's text, in code points.",
            f"{alias}.start",
        ),
        Column("end_offset", "INTEGER", "Where it ends.", f'{alias}."end"'),
    )


def _text(alias: str, name: str = "text", about: str = "Its text.") -> Column:
    return Column(name, "TEXT", about, f'document_text({alias}.document, {alias}.start, {alias}."end")')


_TITLE: Final = Column("title", "TEXT", "The paper's title.", "p.title")
_SECTION: Final = Column(
    "section", "INTEGER", "The innermost section, in sections of the same document.", "s.section"
)
_ON_PAGE: Final = (
    Column("page_number", "INTEGER", "Its page, counted from 1.", "f.page"),
    Column("page_id", "INTEGER", "Its page in pages.", "k.page_id"),
    Column("x", "REAL", "The left edge of its box on the page, in points.", "f.x"),
    Column("y", "REAL", "The top edge.", "f.y"),
    Column("width", "REAL", "The width in points.", "f.width"),
    Column("height", "REAL", "The height in points.", "f.height"),
)
_REF_PAGE: Final = Column("ref_page_id", "INTEGER", "The same as page_id: its page in pages.", "k.page_id")
_BOUNDING_BOX: Final = Column("bounding_box", "TEXT", "x, y, width and height in points, as JSON.", _BOX)
_ORDINAL: Final = Column(
    "ordinal", "INTEGER", "Its place among the document's figures and tables, from 0.", "f.place"
)

VIEWS: Final[tuple[View, ...]] = (
    View(
        "papers",
        "The papers of the library.",
        (
            _PAPER,
            Column("corpus_id", "INTEGER", "Semantic Scholar's corpus id.", "p.corpus_id"),
            Column("external_ids", "TEXT", "Other ids by scheme, as a JSON object.", "p.external_ids"),
            _TITLE,
            Column("abstract", "TEXT", "The abstract.", _ABSTRACT),
            Column("tldr", "TEXT", "A summary in one sentence.", "p.tldr"),
            Column("authors", "TEXT", "The names of the authors in order, as a JSON list.", _AUTHORS),
            Column("year", "INTEGER", "The year of publication.", "p.year"),
            Column("publication_date", "TEXT", "YYYY-MM-DD.", "p.publication_date"),
            Column("venue", "TEXT", "The journal or conference.", "p.venue"),
            Column("categories", "TEXT", "arXiv categories, as a JSON list.", _CATEGORIES),
            Column("status", "TEXT", "withdrawn or retracted; else null.", "p.status", True),
            Column("citation_count", "INTEGER", "Citations worldwide.", "p.citation_count", True),
            Column("reference_count", "INTEGER", "References, from the source.", "p.reference_count", True),
            Column("url", "TEXT", "A link.", "p.url"),
            Column(
                "has_text",
                "INTEGER",
                "1 if documents has its full text.",
                "EXISTS (SELECT 1 FROM texts.documents d WHERE d.paper = p.id)",
            ),
        ),
        _CATALOGUE,
    ),
    View(
        "metadata",
        "The papers of the library, in AirQA's columns.",
        (
            _PAPER,
            Column(
                "uuid",
                "TEXT",
                "The UUID that AirQA gives the paper; of other papers the same as paper_id.",
                "coalesce(p.external_ids ->> 'UUID', i.paper_id)",
            ),
            _TITLE,
            Column("abstract", "TEXT", "The abstract.", _ABSTRACT),
            Column("tldr", "TEXT", "A summary in one sentence.", "p.tldr"),
            Column("authors", "TEXT", "The names of the authors in order, as a JSON list.", _AUTHORS),
            Column("year", "INTEGER", "The year of publication.", "p.year"),
            Column("conference", "TEXT", "The venue as the source writes it.", "p.venue"),
            Column("conference_full", "TEXT", "The whole name of the venue, if the source has it.", _VENUE),
            Column(
                "volume",
                "TEXT",
                "The volume, of a journal or of proceedings.",
                "p.details ->> '$.journal[1]'",
            ),
            Column("num_pages", "INTEGER", "Pages of the PDF, if documents has one.", _PAGES),
            Column(
                "tags", "TEXT", "arXiv categories, then keywords or fields of study, as a JSON list.", _TAGS
            ),
        ),
        _CATALOGUE,
    ),
    View(
        "authors",
        "The authors of the papers.",
        (
            Column("author_id", "TEXT", "The source's id, or name: and the name.", "n.author_id"),
            Column("name", "TEXT", "The name.", "n.name"),
            Column("paper_count", "INTEGER", "Papers in this library.", "n.paper_count", True),
            Column("citation_count", "INTEGER", "Citations of these papers.", "n.citation_count", True),
        ),
        "catalogue.author_names n WHERE {written}",
    ),
    View(
        "authorships",
        "Who wrote which paper. papers.authors has the names in order.",
        (
            Column("author_id", "TEXT", "The author in authors.", "n.author_id"),
            Column("name", "TEXT", "The author's name.", "n.name"),
            _PAPER,
        ),
        "catalogue.author_papers w JOIN catalogue.author_names n ON n.author = w.author "
        "JOIN keys.ids i ON i.paper = w.paper WHERE {known:i}",
    ),
    View(
        "citations",
        "Citations among the papers of the library.",
        (
            Column("citing_paper_id", "TEXT", "The paper that cites.", "i.paper_id"),
            Column("cited_paper_id", "TEXT", "The paper that is cited.", "c.paper_id"),
            Column("is_influential", "INTEGER", "1 or 0, from Semantic Scholar.", "e.is_influential"),
            Column("contexts", "TEXT", "Sentences with the citation, as a JSON list.", "e.contexts"),
            Column("intents", "TEXT", "Why it is cited, as a JSON list.", "e.intents"),
        ),
        "catalogue.edges e JOIN keys.ids i ON i.paper = e.citing JOIN keys.ids c ON c.paper = e.cited "
        "WHERE {known:i} AND {known:c}",
    ),
    View(
        "documents",
        "The full texts of papers.",
        (
            _DOCUMENT,
            _PAPER,
            Column("version", "INTEGER", "The version of the paper, null if unknown.", "d.version"),
            Column("source", "TEXT", "jats, latexml, unarxive, markdown, s2orc, text or pdf.", "d.source"),
            Column("is_main", "INTEGER", "1 if this text is read and searched.", "d.is_main"),
            Column("characters", "INTEGER", "The length of the text.", "d.characters"),
            Column("tokens", "INTEGER", "The length of the text in tokens of the encoder.", "d.tokens"),
            Column(
                "text", "TEXT", "The whole text: read a part by substr.", "document_text(d.id, NULL, NULL)"
            ),
        ),
        "texts.documents d JOIN keys.ids i ON i.paper = d.paper WHERE {known:i}",
    ),
    View(
        "sections",
        "The sections of the documents. A section contains its subsections.",
        (
            _DOCUMENT,
            _PAPER,
            Column("section", "INTEGER", "Its place in the document, from 0.", "s.place"),
            Column("parent", "INTEGER", "The section that contains it.", "s.parent"),
            Column("section_number", "TEXT", "The number as printed, such as 2.1.", "s.number"),
            Column("title", "TEXT", "Its title.", "s.title"),
            *_offsets("s"),
            Column("tokens", "INTEGER", "Its length in tokens.", "s.tokens"),
            _text("s"),
            Column("section_id", "TEXT", "document_id and section.", "d.id || ':' || s.place"),
            Column("section_title", "TEXT", "The same as title.", "s.title"),
            _text("s", "section_content", "The same as text."),
            Column("ordinal", "INTEGER", "The same as section.", "s.place"),
            _REF_PAPER,
            Column("page_number", "INTEGER", "The page where it starts, of a PDF.", _start_page("number")),
            Column("ref_page_id", "INTEGER", "That page in pages.", _start_page("page_id")),
        ),
        f"{_parts('sections', 's')} WHERE {{known:i}}",
    ),
    View(
        "passages",
        "The passages of the documents that are searched.",
        (
            Column("passage_id", "INTEGER", "The number of the passage.", "s.id"),
            _DOCUMENT,
            _PAPER,
            _SECTION,
            *_offsets("s"),
            Column("tokens", "INTEGER", "Its length in tokens.", "s.tokens"),
            _text("s"),
        ),
        f"{_parts('passages', 's')} WHERE {{known:i}}",
    ),
    View(
        "chunks",
        "The passages, in AirQA's columns.",
        (
            Column("chunk_id", "INTEGER", "The number of the passage.", "s.id"),
            _text("s", "text_content"),
            _REF_PAPER,
            _DOCUMENT,
            Column(
                "ref_page_id",
                "INTEGER",
                "The page in pages where it starts, of a PDF.",
                _start_page("page_id"),
            ),
        ),
        f"{_parts('passages', 's')} WHERE {{known:i}}",
    ),
    View(
        "figures",
        "The figures of the documents.",
        (
            _DOCUMENT,
            _PAPER,
            Column("label", "TEXT", "The label, such as Figure 3.", "f.label"),
            _NUMBER,
            Column("caption", "TEXT", "The caption.", "f.caption"),
            *_ON_PAGE,
            _ORDINAL,
        ),
        _figures("figure"),
    ),
    View(
        "images",
        "The figures, in AirQA's columns.",
        (
            Column("image_id", "TEXT", "document_id and ordinal.", "d.id || ':' || f.place"),
            Column("image_caption", "TEXT", "The label and the caption.", _CAPTION),
            _BOUNDING_BOX,
            _NUMBER,
            _ORDINAL,
            _REF_PAPER,
            _REF_PAGE,
            _DOCUMENT,
        ),
        _figures("figure"),
    ),
    View(
        "tables",
        "The tables of the documents.",
        (
            _DOCUMENT,
            _PAPER,
            Column("label", "TEXT", "The label, such as Table 2.", "f.label"),
            _NUMBER,
            Column("caption", "TEXT", "The caption.", "f.caption"),
            Column("html", "TEXT", "The table as HTML, if the source has it.", "f.html"),
            *_ON_PAGE,
            Column("table_id", "TEXT", "document_id and ordinal.", "d.id || ':' || f.place"),
            Column("table_caption", "TEXT", "The label and the caption.", _CAPTION),
            Column("table_content", "TEXT", "The same as html.", "f.html"),
            Column("table_html", "TEXT", "The same as html.", "f.html"),
            _BOUNDING_BOX,
            _ORDINAL,
            _REF_PAPER,
            _REF_PAGE,
        ),
        _figures("table"),
    ),
    View(
        "pages",
        "The pages of the documents that are PDFs.",
        (
            Column("page_id", "INTEGER", "The number of the page in this view.", "k.page_id"),
            _DOCUMENT,
            _PAPER,
            Column("page_number", "INTEGER", "The page, counted from 1.", "k.number"),
            Column("width", "REAL", "The width in points.", "g.width"),
            Column("height", "REAL", "The height in points.", "g.height"),
            _text("g", about="The text of the page."),
            _REF_PAPER,
            Column("page_width", "REAL", "The same as width.", "g.width"),
            Column("page_height", "REAL", "The same as height.", "g.height"),
            _text("g", "page_content", "The same as text."),
        ),
        "keys.pages k JOIN texts.pages g ON g.document = k.document AND g.number = k.number "
        "JOIN texts.documents d ON d.id = k.document JOIN keys.ids i ON i.paper = d.paper WHERE {known:i}",
    ),
    View(
        "references",
        "The entries of the bibliographies of the documents.",
        (
            Column("reference_id", "TEXT", "document_id and ordinal.", "d.id || ':' || b.place"),
            Column("reference_content", "TEXT", "The entry as printed.", "b.text"),
            Column("ordinal", "INTEGER", "Its place in the bibliography, from 0.", "b.place"),
            _REF_PAPER,
            _DOCUMENT,
            _PAPER,
            Column("title", "TEXT", "The title of the cited work, if the source has it.", "b.title"),
            Column("year", "INTEGER", "Its year, if the source has it.", "b.year"),
            Column("cited_paper_id", "TEXT", "The cited paper, if the library holds it.", "c.paper_id"),
        ),
        f"{_parts('bibliography', 'b')} LEFT JOIN keys.ids c ON c.paper = b.paper AND {{known:c}} WHERE {{known:i}}",
    ),
)

NAMES: Final = tuple(view.name for view in VIEWS)
COLUMNS: Final = {view.name: tuple(column.name for column in view.columns) for view in VIEWS}
TABLES: Final = frozenset(
    {
        *(
            ("catalogue", name)
            for name in ("papers", "abstracts", "edges", "author_names", "author_papers", "venues")
        ),
        *(
            ("texts", name)
            for name in ("documents", "sections", "passages", "figures", "pages", "bibliography")
        ),
        *(("keys", name) for name in ("ids", "pages", "figures")),
    }
)
"""The tables that the views read."""

_SCHEMAS: Final = re.compile(r"\b(catalogue|texts|keys)\.")

NO_VIEW: Final = "sqlite_source_id"
"""The function that stands in the views of other tables' names. The authorizer refuses it."""
FUNCTIONS: Final = {
    "paper_id(id)": "The canonical id of the paper with an id of any form: paper_id('10.1016/0550-3213(93)90042-N').",
    "regexp_matches(text, pattern)": "1 if the text contains the regular expression, in RE2's syntax; also text REGEXP "
    "pattern.",
    "list_contains(list, value)": "1 if a JSON list contains the value.",
    "contains(text, part)": "1 if the text contains the part, in the same case.",
    "starts_with(text, start)": "1 if the text starts so, in the same case.",
}
"""The functions besides SQLite's own."""

EXAMPLES: Final = (
    "SELECT title, year FROM papers WHERE list_contains(categories, 'hep-th') ORDER BY citation_count DESC LIMIT 5",
    "SELECT abstract FROM metadata WHERE paper_id = paper_id('hep-th/9301068')",
    "SELECT section_number, title, tokens FROM sections WHERE paper_id = 'arXiv:hep-th/9301068' ORDER BY section",
    "SELECT pages.page_number FROM images JOIN pages ON images.ref_page_id = pages.page_id "
    "WHERE pages.ref_paper_id = 'arXiv:hep-th/9301068' AND image_caption LIKE '%Figure 3%'",
    "SELECT cited_paper_id, count(*) AS times FROM citations GROUP BY cited_paper_id ORDER BY times DESC LIMIT 10",
)


def create(connection: sqlite3.Connection, prefix: str, schemas: Mapping[str, str], day: int | None) -> None:
    """Create the views, for all papers or those by the day ``yyyymmdd``, and replace those created before.

    Each reads a second view, whose name begins with ``prefix``: the authorizer lets only these read columns of tables,
    and a statement that does not know the prefix cannot name one. The other tables' names become those of views too,
    which no statement may read.

    Args:
        schemas: the names under which the databases ``catalogue``, ``texts`` and ``keys`` are attached.
    """
    for schema in schemas.values():
        listed = connection.execute(
            f"SELECT name FROM {schema}.sqlite_master WHERE type IN ('table', 'view')"
        )
        for (name,) in listed.fetchall():
            if name not in NAMES and not name.startswith("sqlite_"):
                connection.execute(f'CREATE TEMP VIEW IF NOT EXISTS "{name}" AS SELECT {NO_VIEW}()')
    for view in VIEWS:
        inner = inner_name(prefix, view.name)
        for name in (view.name, inner):
            connection.execute(f'DROP VIEW IF EXISTS temp."{name}"')
        columns = ", ".join(
            f"{'NULL' if column.is_later and day is not None else column.sql} AS {column.name}"
            for column in view.columns
        )
        sql = f"SELECT {columns} FROM {_source(view.source, day)}"
        sql = _SCHEMAS.sub(lambda match: f"{schemas[match[1]]}.", sql)
        connection.execute(f"CREATE TEMP VIEW {inner} AS {sql}")
        connection.execute(f'CREATE TEMP VIEW "{view.name}" AS SELECT * FROM temp.{inner}')


def inner_name(prefix: str, name: str) -> str:
    """The name of the view that reads the tables of a view."""
    return f"{prefix}_{name}"


def _source(source: str, day: int | None) -> str:
    known = "1" if day is None else f"{{}}.last_day <= {day}"
    written = (
        "1"
        if day is None
        else "EXISTS (SELECT 1 FROM catalogue.author_papers w JOIN keys.ids i ON i.paper = w.paper "
        f"WHERE w.author = n.author AND {known.format('i')})"
    )
    for alias in ("i", "c"):
        source = source.replace(f"{{known:{alias}}}", known.format(alias))
    return source.replace("{written}", written)


def described() -> Iterator[dict[str, Any]]:
    """The views with their columns as JSON."""
    for view in VIEWS:
        columns = [{"name": c.name, "type": c.type, "description": c.about} for c in view.columns]
        yield {"name": view.name, "description": view.about, "columns": columns}
