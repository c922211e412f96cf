"""What holds for the document of every reader."""

from scholarbase.documents.model import Document


def check(document: Document) -> None:
    """Offsets lie in the text, sections nest, paragraphs follow each other in their sections, marks name entries."""
    text = document.text
    for place, section in enumerate(document.sections):
        assert 0 <= section.start <= section.end <= len(text)
        heading = f"{section.number} {section.title}" if section.number else section.title
        assert text[section.start :].startswith(heading.strip())
        if section.parent is not None:
            parent = document.sections[section.parent]
            assert section.parent < place
            assert parent.start <= section.start <= section.end <= parent.end
    for before, after in zip(document.sections, document.sections[1:], strict=False):
        assert before.start < after.start
        assert after.parent is not None or before.end <= after.start
    last = 0
    for paragraph in document.paragraphs:
        assert last <= paragraph.start < paragraph.end <= len(text)
        assert text[paragraph.start : paragraph.end].strip()
        last = paragraph.end
        around = [
            place
            for place, section in enumerate(document.sections)
            if section.start <= paragraph.start and paragraph.end <= section.end
        ]
        assert paragraph.section == (around[-1] if around else None)
    for citation in document.citations:
        assert 0 <= citation.start < citation.end <= len(text)
        assert 0 <= citation.entry < len(document.bibliography)
        assert text[citation.start : citation.end].strip() == text[citation.start : citation.end]
    for figure in document.figures:
        if figure.start is not None and figure.end is not None:
            assert text[figure.start : figure.end] == figure.caption
    for page in document.pages:
        assert 0 <= page.start <= page.end <= len(text)
        assert page.width > 0
        assert page.height > 0
    text.encode()
    assert "\0" not in text


def marks(document: Document) -> list[str]:
    """The citation marks, as they are in the text."""
    return [document.text[citation.start : citation.end] for citation in document.citations]
