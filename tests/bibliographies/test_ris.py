"""RIS as databases export it."""

from scholarbase.bibliographies.names import display_name
from scholarbase.bibliographies.references import PAPERS
from scholarbase.bibliographies.ris import read_ris


def test_tags_of_databases() -> None:
    for lines, field, expected in (
        ("T1  - A|T2  - Journal", "venue", "Journal"),
        ("TI  - A|BT  - The Book", "venue", "The Book"),
        ("BT  - A whole book|PB  - Press", "title", "A whole book"),
        ("BT  - A whole book|PB  - Press", "venue", "Press"),
        ("TI  - A|JF  - Journal of Tests|JA  - J. Tests", "venue", "Journal of Tests"),
        ("TI  - A|C3  - Proceedings|T3  - Series", "venue", "Proceedings"),
        ("TI  - A|AU  - A, B; C, D", "authors", ["B A", "D C"]),
        ("TI  - A|A1  - Roe, Bo|A1  - Doe, Ann", "authors", ["Bo Roe", "Ann Doe"]),
        ("TI  - A|A2  - Ed, It", "authors", ["It Ed"]),
        ("TI  - A|AU  - World Health Organization,", "authors", ["World Health Organization"]),
        ("TI  - A|AU  - Food and Drug Administration", "authors", ["Food and Drug Administration"]),
        ("TI  - A|Y1  - 2019//", "year", 2019),
        ("TI  - A|PY  - 2019/05/03/", "date", "2019-05-03"),
        ("TI  - A|PY  - 2019|DA  - 2019/05/03", "date", "2019-05-03"),
        ("TI  - A|Y2  - 2020/01/01", "year", None),
        ("TI  - A| title in|  three lines", "title", "A title in three lines"),
        ("TI  - A|KW  - one|KW  - two|three", "keywords", ("one", "two", "three")),
        ("TI  - A|N1  - |N1  - arXiv:1706.03762", "ids", ("arXiv:1706.03762",)),
        ("TI  - A|L3  - 10.1000/l3", "ids", ("DOI:10.1000/l3",)),
        ("TI  - A|SP  - 3|EP  - 9", "pages", "3-9"),
        ("TI  - A|UR  - https://a.org/1;https://a.org/2", "url", "https://a.org/1"),
        ("TI - A|AU - Roe, Bo", "authors", ["Bo Roe"]),
    ):
        text = "\n".join(("TY  - JOUR", *lines.split("|"), "ER  - "))
        [record] = read_ris(text, PAPERS)
        value = getattr(record, field)
        if field == "authors":
            value = [display_name(name) for name in value]
        assert (tuple(map(str, value)) if field == "ids" else value) == expected


def test_text_between_records_is_no_error() -> None:
    text = "Exported by Ovid\n\n1. \nhttps://example.org/1\nTY  - JOUR\nTI  - A\nER  - \n\n"
    text += "2.\nTY  - JOUR\nTI  - B\nER  -\nend\n"
    assert [(record.title, record.line) for record in read_ris(text, PAPERS)] == [("A", 5), ("B", 10)]
    [broken] = read_ris("AU  - Roe, Bo\nTI  - A\nER  - \n", PAPERS)
    assert broken.problem == "The RIS record is broken: it does not start with TY  -."
