"""Topics of works: a name in a subfield, a field and one of the four domains of https://openalex.org/domains.

Clients join the four names, so that none of them is null.
"""

from __future__ import annotations

from typing import Any, Final

from scholarbase.models.papers import Paper
from scholarbase_dialects.describing import FIELD_OF_ARCHIVE

PHYSICAL: Final = "Physical Sciences"
_FIELDS_OF_DOMAIN: Final = {
    "Life Sciences": (
        "Agricultural and Biological Sciences", "Agricultural and Food Sciences",
        "Biochemistry, Genetics and Molecular Biology", "Biology", "Immunology and Microbiology", "Neuroscience",
        "Pharmacology, Toxicology and Pharmaceutics",
    ),
    "Social Sciences": (
        "Art", "Arts and Humanities", "Business", "Business, Management and Accounting", "Decision Sciences",
        "Economics", "Economics, Econometrics and Finance", "Education", "Geography", "History", "Law", "Linguistics",
        "Philosophy", "Political Science", "Psychology", "Social Sciences", "Sociology",
    ),
    PHYSICAL: (
        "Chemical Engineering", "Chemistry", "Computer Science", "Earth and Planetary Sciences", "Energy",
        "Engineering", "Environmental Science", "Geology", "Materials Science", "Mathematics", "Physics",
        "Physics and Astronomy",
    ),
    "Health Sciences": ("Dentistry", "Health Professions", "Medicine", "Nursing", "Veterinary"),
}  # fmt: skip
"""The fields of OpenAlex, and of Semantic Scholar."""
_DOMAIN_OF_FIELD: Final = {field: domain for domain, fields in _FIELDS_OF_DOMAIN.items() for field in fields}


def topics(paper: Paper) -> list[dict[str, Any]]:
    """The arXiv categories, or for a paper without one its fields of study. An unknown domain has an empty name."""
    if not paper.categories:
        return [_topic(name, name, name, _DOMAIN_OF_FIELD.get(name, "")) for name in paper.fields_of_study]
    return [_of_category(category) for category in paper.categories]


def _of_category(category: str) -> dict[str, Any]:
    archive = category.partition(".")[0]
    field = FIELD_OF_ARCHIVE.get(archive, archive)
    # The archives that arXiv has closed, such as chao-dyn, are of physics, mathematics and computer science.
    return _topic(category, archive, field, _DOMAIN_OF_FIELD.get(field, PHYSICAL))


def _topic(name: str, subfield: str, field: str, domain: str) -> dict[str, Any]:
    levels = {"subfield": subfield, "field": field, "domain": domain}
    return {
        "id": None,
        "display_name": name,
        "score": None,
        **{level: {"id": None, "display_name": text} for level, text in levels.items()},
    }
