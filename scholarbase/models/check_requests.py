"""Requests that check references."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_text
from scholarbase.models.limits import MAX_REFERENCE_BYTES, MAX_REFERENCES, ReferenceFormat
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.values import AsOf, FieldNames


class CheckBody(ResponseOptions, Timed):
    """References to check."""

    references: str = Field(
        description="BibTeX, RIS or CSL-JSON, or one reference, DOI or id per line: at most "
        f"{MAX_REFERENCES:,} references and {MAX_REFERENCE_BYTES:,} bytes.",
        examples=[
            "D. J. Gross and W. Taylor, Two dimensional QCD is a string theory, Nucl. Phys. B 400, 181 (1993)\n"
            "arXiv:hep-th/9303046"
        ],
        json_schema_extra={"minLength": 1, "maxLength": MAX_REFERENCE_BYTES},
    )
    input_format: ReferenceFormat = Field(
        default="auto",
        description="The format of `references`; by default the one that their content shows.",
        examples=["bibtex"],
    )
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        if not self.references.strip():
            raise InvalidRequest("references is empty: send at least one reference.")
        check_text(self.references, "references")
        return self
