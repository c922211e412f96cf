"""Engines that sparse search is compared with, tantivy and bm25s, over the texts of the library.

Each indexes title and abstract as one text with English stemming and without stop words. All use ScholarBase's stop
words, since another list would change the number of query terms. An index is built once.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

import bm25s
import numpy as np
import Stemmer
import tantivy

from benchmarks.timing import size
from scholarbase.databases import open_for_reading
from scholarbase.indexes import catalog
from scholarbase.indexes.stop_words import STOP_WORDS

Hits = list[tuple[int, float]]
"""The catalogue's ids with their scores, best first."""

TANTIVY_HEAP: Final = 512 << 20
FACTS: Final = "facts.json"


class Engine(Protocol):
    """An index of a library's texts, in memory or mapped, searched in one thread."""

    facts: dict[str, Any]

    def search(self, question: str, limit: int) -> Hits: ...


class Tantivy:
    """tantivy, with the ids in a fast field and each query an OR of its terms."""

    def __init__(self, folder: Path) -> None:
        self.facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
        self._analyzer = _analyzer()
        index = tantivy.Index.open(str(folder / "index"))
        index.register_tokenizer("text", self._analyzer)
        self._schema = index.schema
        self._searcher = index.searcher()
        self.facts["segments"] = self._searcher.num_segments

    @staticmethod
    def build(library: Path, folder: Path) -> None:
        """Index the library's texts."""
        fields = tantivy.SchemaBuilder()
        fields.add_integer_field("id", fast=True)
        fields.add_text_field("text", tokenizer_name="text", index_option="freq")
        folder.mkdir()
        index = tantivy.Index(fields.build(), str(folder))
        index.register_tokenizer("text", _analyzer())
        writer = index.writer(TANTIVY_HEAP)
        for paper, text in texts(library):
            writer.add_document(tantivy.Document(id=paper, text=text))
        writer.commit()
        writer.wait_merging_threads()

    def search(self, question: str, limit: int) -> Hits:
        terms = dict.fromkeys(self._analyzer.analyze(question))
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", term, "freq"))
                for term in terms
            ]
        )
        hits = self._searcher.search(query, limit, count=False).hits
        ids = self._searcher.fast_field_values("id", [address for _, address in hits])
        return [(int(paper), score) for paper, (score, _) in zip(ids, hits, strict=True)]


def _analyzer() -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(40))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.custom_stopword(sorted(STOP_WORDS)))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


class Bm25s:
    """bm25s with its tokenizer and numba, the index in memory."""

    def __init__(self, folder: Path) -> None:
        self.facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
        index = folder / "index"
        self._tokenizer = _tokenizer()
        self._tokenizer.load_vocab(str(index))
        self._ids = np.load(index / "ids.npy")
        self._index = bm25s.BM25.load(str(index), mmap=False, show_progress=False)
        self._index.backend = "numba"

    @staticmethod
    def build(library: Path, folder: Path) -> None:
        """Index the library's texts, with all tokens in memory, as bm25s requires."""
        folder.mkdir()
        ids: list[int] = []

        def streamed() -> Iterator[str]:
            for paper, text in texts(library):
                ids.append(paper)
                yield text

        tokenizer = _tokenizer()
        tokens = list(tokenizer.tokenize(streamed(), update_vocab=True, return_as="stream"))
        index = bm25s.BM25(backend="numba")
        index.index((tokens, tokenizer.get_vocab_dict()), show_progress=False)
        index.save(str(folder), show_progress=False)
        tokenizer.save_vocab(str(folder))
        np.save(folder / "ids.npy", np.array(ids, np.int64))

    def search(self, question: str, limit: int) -> Hits:
        [terms] = self._tokenizer.tokenize(
            [question], update_vocab=False, show_progress=False, allow_empty=False
        )
        terms = list(dict.fromkeys(terms))
        if not terms:
            return []
        result = self._index.retrieve(
            [terms],
            corpus=self._ids,
            k=min(limit, len(self._ids)),
            show_progress=False,
            n_threads=1,
        )
        pairs = zip(result.documents[0].tolist(), result.scores[0].tolist(), strict=True)
        return [(paper, score) for paper, score in pairs if score > 0]


def _tokenizer() -> Any:
    return bm25s.tokenization.Tokenizer(stopwords=sorted(STOP_WORDS), stemmer=Stemmer.Stemmer("english"))


def texts(library: Path) -> Iterator[tuple[int, str]]:
    """Each paper's id, and title and abstract as one text, by ascending id."""
    with closing(open_for_reading(library / catalog.FILE_NAME)) as db:
        for paper, title, abstract in db.execute(
            "SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id ORDER BY id"
        ):
            yield paper, f"{title}\n{abstract or ''}"


def built(folder: Path, build: Callable[[Path, Path], None], library: Path) -> Path:
    """Build the index of a library and its facts in ``folder``, unless it is there. Replaces another library's."""
    snapshot = (library / "manifest.json").read_text()
    facts = folder / FACTS
    if facts.is_file() and json.loads(facts.read_text())["manifest"] == snapshot:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    build(library, folder / "index")
    seconds = time.perf_counter() - began
    text = {"build_seconds": round(seconds, 1), "bytes": size(folder / "index"), "manifest": snapshot}
    facts.write_text(json.dumps(text))
    return folder
