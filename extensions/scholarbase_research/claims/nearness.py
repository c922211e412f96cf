"""How near a whole paper is to a claim, also where no sentence of it has the claim's words."""

from __future__ import annotations

from functools import lru_cache

from scholarbase.encoders import Encoder, document_text, open_encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.papers import Paper
from scholarbase_research.claims.comparison import content_stems, content_words


def nearness(claim: str, paper: Paper, encoder: Encoder | None = None) -> float:
    """How near a claim is to the title and abstract of a paper, from 0 to 1.

    The mean of three parts: the cosine of both vectors, the share of the claim's words that title, abstract and names
    of the authors have, and the mean cosine of each word of the title with the nearest word of the claim. The vectors
    are those of the packaged encoder, so that the number is the same in each library. ``encoder``, an open one, is used
    if it is this one.
    """
    if encoder is None or getattr(encoder, "folder", None) != PACKAGED_FOLDER.resolve():
        encoder = packaged_encoder()
    title = paper.title or ""
    text = document_text(title, paper.abstract)
    names = " ".join(author.name for author in paper.authors or ())
    stated, wanted = content_words(claim), content_stems(claim)
    titled = [*dict.fromkeys(content_words(title))]
    if not wanted or not titled:
        return 0.0
    vectors = encoder.encode_queries([claim, text, *titled, *stated]).dense
    cosine = float(vectors[0] @ vectors[1])
    share = len(wanted & content_stems(f"{text}\n{names}")) / len(wanted)
    words = float((vectors[2 : 2 + len(titled)] @ vectors[2 + len(titled) :].T).max(axis=1).mean())
    return round(min(1.0, max(0.0, (cosine + share + words) / 3)), 4)


@lru_cache(maxsize=1)
def packaged_encoder() -> Encoder:
    return open_encoder(PACKAGED)
