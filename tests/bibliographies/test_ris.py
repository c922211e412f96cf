"""RIS as databases export it."""

from scholarbase.bibliographies.names import display_name
from scholarbase.bibliographies.references import PAPERS
from scholarbase.bibliographies.ris import read_ris
from tests.tables import cases


def test_tags_of_databases() -> None:
    for lines, field, expected in cases("references", "ris"):
        [record] = read_ris(f"TY  - JOUR\n{lines}\nER  - ", PAPERS)
        value = getattr(record, field)
        if field == "authors":
            value = map(display_name, value)
        if isinstance(expected, list):
            value = list(map(str, value))
        assert value == expected, lines


def test_text_between_records_is_no_error() -> None:
    text = "Exported by Ovid\n\n1. \nhttps://example.org/1\nTY  - JOUR\nTI  - A\nER  - \n\n"
    text += "2.\nTY  - JOUR\nTI  - B\nER  -\nend\n"
    assert [(record.title, record.line) for record in read_ris(text, PAPERS)] == [("A", 5), ("B", 10)]
    [broken] = read_ris("AU  - Roe, Bo\nTI  - A\nER  - \n", PAPERS)
    assert broken.problem == "The RIS record is broken: it does not start with TY  -."
