"""The question that finds the target of a relation in its pool: AIM-SciQA's Retrieval QA selection (section 4.3).

It is the target's question that differs most from the questions of the pool's other papers: with
the highest sum of cosine distances to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import Encoder
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.construction.pools import Pool
from scholarbase_research.construction.relations import PaperQuestion

_DECIMALS: Final = 6
"""To which sums are rounded; equal ones are in the order of the questions."""


def with_retrieval_questions(
    pools: Iterable[Pool],
    questions: Sequence[PaperQuestion],
    encoder: Encoder,
    *,
    reporter: Reporter | None = None,
) -> Iterator[Pool]:
    """Yield the pools with the target's most distinct question as the query. A question is encoded with its answer.

    Raises:
        InvalidRequest: a target, or all other papers of a pool, have no questions, or the encoder makes no vectors.
        EncoderError: the encoder fails.
    """
    ordered = sorted(
        set(questions),
        key=lambda paper_question: (paper_question.paper, paper_question.question, paper_question.answer),
    )
    places: dict[str, list[int]] = {}
    for position, paper_question in enumerate(ordered):
        places.setdefault(paper_question.paper, []).append(position)
    with (reporter or SilentReporter()).stage("encode", "questions", len(ordered)) as tracker:
        texts = [f"{paper_question.question} {paper_question.answer}".strip() for paper_question in ordered]
        vectors: npt.NDArray[np.float32] = encoder.encode_queries(texts).dense
        tracker.advance(len(ordered))
    if not vectors.shape[1]:
        raise InvalidRequest(f"The encoder {encoder.spec.name} makes no dense vectors: use another one.")
    sums = {paper: vectors[of_paper].sum(axis=0, dtype=np.float64) for paper, of_paper in places.items()}
    for pool in pools:
        target, name = pool.relation.target, shown(pool.relation.query_id, 80)
        others = [paper for paper in pool.papers if paper != target and paper in sums]
        if target not in places or not others:
            which = f"the target {target}" if target not in places else "the other papers of the pool"
            raise InvalidRequest(f"There are no questions of {which} of the relation {name}: add some.")
        # The distances of a unit vector to n others are n less its product with their sum.
        target_vectors = vectors[places[target]].astype(np.float64)
        distances = -(target_vectors @ np.sum([sums[paper] for paper in others], axis=0)).round(_DECIMALS)
        question = ordered[places[target][int(np.argmax(distances))]].question
        yield replace(pool, relation=pool.relation._replace(query=question))
