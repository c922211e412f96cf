"""What questions want and exclude. The readings are written by hand."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.responses import Understood
from scholarbase.search.exclusions import read
from scholarbase.search.library import Library
from scholarbase.search.negations import may_exclude
from tests.libraries import opened_library

Reading = tuple[str, list[str], list[str]]

READ: dict[str, Reading] = {
    "reinforcement learning for recommender systems, excluding surveys and reviews": (
        "reinforcement learning for recommender systems",
        ["surveys", "reviews"],
        [],
    ),
    "machine translation but not neural machine translation": (
        "machine translation",
        ["neural machine translation"],
        [],
    ),
    "privacy preserving machine learning other than federated learning": (
        "privacy preserving machine learning",
        ["federated learning"],
        [],
    ),
    "clustering algorithms not based on k-means": ("clustering algorithms", [], ["k-means"]),
    "object detection without deep learning or neural networks": (
        "object detection",
        [],
        ["deep learning", "neural networks"],
    ),
    # where a negation stands
    "Excluding surveys, what is known about dialogue systems?": (
        "what is known about dialogue systems",
        ["surveys"],
        [],
    ),
    "Do not include surveys. Graph neural networks for chemistry": (
        "Graph neural networks for chemistry",
        ["surveys"],
        [],
    ),
    "Dialogue systems. I am not interested in chatbots.": ("Dialogue systems", ["chatbots"], []),
    "Dialogue systems. I'm not looking for chatbots": ("Dialogue systems", ["chatbots"], []),
    "dialogue systems; don\u2019t show chatbots": ("dialogue systems", ["chatbots"], []),
    "dialogue systems (not chatbots)": ("dialogue systems", ["chatbots"], []),
    "dialogue systems, excluding those about chatbots": ("dialogue systems", ["chatbots"], []),
    "dialogue systems excluding those that use chatbots": ("dialogue systems", ["chatbots"], []),
    "dialogue systems (excluding chatbots) for health": ("dialogue systems for health", ["chatbots"], []),
    "dialogue systems, not chatbots, in health": ("dialogue systems in health", ["chatbots"], []),
    "exploration in reinforcement learning, please leave out papers on bandits": (
        "exploration in reinforcement learning",
        ["bandits"],
        [],
    ),
    "graph learning and no surveys": ("graph learning", ["surveys"], []),
    "graph learning that is not about molecules": ("graph learning", ["molecules"], []),
    "studies of graphs that do not mention molecules": ("studies of graphs", ["molecules"], []),
    "apart from GANs, generative models of images": ("generative models of images", ["GANs"], []),
    "generative models of images with the exception of GANs": (
        "generative models of images",
        ["GANs"],
        [],
    ),
    "topic models except LDA, for short texts": ("topic models for short texts", ["LDA"], []),
    "anything other than transformers for parsing": ("anything for parsing", ["transformers"], []),
    "methods other than transformers for parsing": ("methods for parsing", ["transformers"], []),
    "image generation, excluding surveys, published after 2020": (
        "image generation published after 2020",
        ["surveys"],
        [],
    ),
    "image generation excluding diffusion models from 2021": (
        "image generation from 2021",
        ["diffusion models"],
        [],
    ),
    "image generation, EXCLUDING DIFFUSION MODELS": ("image generation", ["DIFFUSION MODELS"], []),
    "parsing, except for constituency parsing but not dependency parsing": (
        "parsing",
        ["constituency parsing", "dependency parsing"],
        [],
    ),
    # what it applies to
    "image generation, excluding surveys, reviews, and tutorials": (
        "image generation",
        ["surveys", "reviews", "tutorials"],
        [],
    ),
    "text classification, excluding deep methods such as CNNs and RNNs": (
        "text classification",
        ["deep methods", "CNNs", "RNNs"],
        [],
    ),
    "learning theory, excluding supervised or unsupervised learning": (
        "learning theory",
        ["supervised learning", "unsupervised learning"],
        [],
    ),
    "denoising but not deep learning methods": ("denoising", ["deep learning"], []),
    "denoising but not transformer-based approaches": ("denoising", ["transformer"], []),
    "denoising but not learning-based approaches": ("denoising", ["learning-based approaches"], []),
    "denoising except papers that use wavelets": ("denoising", ["wavelets"], []),
    "recommendation, excluding any studies of news recommendation": (
        "recommendation",
        ["news recommendation"],
        [],
    ),
    "chemistry with graphs, excluding graph networks for proteins": (
        "chemistry with graphs",
        ["graph networks for proteins"],
        [],
    ),
    "parsing, avoiding chatbots, excluding chatbots": ("parsing", ["chatbots"], []),
    # avoided
    "recommendation without collaborative filtering for cold start users": (
        "recommendation for cold start users",
        [],
        ["collaborative filtering"],
    ),
    "denoising without using deep learning": ("denoising", [], ["deep learning"]),
    "denoising without relying on the noise level": ("denoising", [], ["noise level"]),
    "denoising with no neural networks": ("denoising", [], ["neural networks"]),
    "denoising methods that do not require GPUs": ("denoising methods", [], ["GPUs"]),
    "denoising that doesn't use wavelets or curvelets": ("denoising", [], ["wavelets", "curvelets"]),
    "semantic parsing rather than machine translation": ("semantic parsing", [], ["machine translation"]),
    "non-neural machine translation": ("machine translation", [], ["neural"]),
    "non-deep learning methods for denoising": ("methods for denoising", [], ["deep learning"]),
    "Which papers about sensor networks do not deal with routing?": (
        "papers about sensor networks",
        ["routing"],
        [],
    ),
    "denoising without wavelets, excluding surveys": ("denoising", ["surveys"], ["wavelets"]),
    "models that do not include covariates": ("models", [], ["covariates"]),
    # the rest of the question
    "translation excluding neural translation for rare languages": (
        "translation for rare languages",
        ["neural translation"],
        [],
    ),
    "metrics other than BLEU for translation": ("metrics for translation", ["BLEU"], []),
    "language models excluding those based on BERT": ("language models", ["BERT"], []),
    "clustering algorithms other than k-means, such as DBSCAN": (
        "clustering algorithms such as DBSCAN",
        ["k-means"],
        [],
    ),
    "language models excluding BERT and excluding GPT": ("language models", ["BERT", "GPT"], []),
    "language models without BERT and without GPT": ("language models", [], ["BERT", "GPT"]),
    "semi-supervised learning? but not graphs": ("semi-supervised learning", ["graphs"], []),
    "Other than GANs, which models make images?": ("models make images", ["GANs"], []),
    "Except for surveys, which papers compare graphs?": ("papers compare graphs", ["surveys"], []),
}
OTHER_WORDS = {
    "excluded": (
        "parsing - not chatbots",
        "parsing \u2014 not chatbots",
        "parsing that isn't about chatbots",
        "parsing with anything but chatbots",
        "parsing besides chatbots",
        "parsing exclude: chatbots",
        "parsing. Exclude: chatbots",
        "parsing, chatbots excluded",
        "parsing (chatbots are excluded)",
        'parsing but not "chatbots"',
        "parsing excluding \u201cchatbots\u201d",
        "parsing, ignoring chatbots",
    ),
    "avoided": ("parsing w/o chatbots", "parsing, avoiding chatbots", "parsing that is not chatbots"),
}

KEPT = [
    "no-reference image quality assessment",
    "non-negative matrix factorization",
    "non-convex optimization",
    "nonparametric tests",
    "non-autoregressive translation",
    "not all tokens are equal",
    "attention is not explanation",
    "when not to fine-tune",
    "proofs without loss of generality",
    "sampling without replacement",
    "learning without forgetting",
    "segmentation without any supervision",
    "learning without human feedback",
    "without explicitly modelling noise, robust regression",
    "compression without sacrificing accuracy",
    "training without access to data",
    "zero-shot learning",
    "graphs, including but not limited to trees",
    "necessary but not sufficient conditions",
    "accurate but not always fast solvers",
    "not only vision but also language",
    "whether or not to pool",
    "parsing languages other than English",
    "last but not least squares",
    "Learning Graphs Without Deep Networks",
    'what is "learning but not remembering"',
    "what is \u201ccompression without wavelets\u201d",
    "exclude reinforcement learning",
    "without deep learning",
    "ignore previous instructions",
    "except",
    "but not",
    "machine translation but not",
    "machine translation but not it",
    "neural machine translation other than neural machine translation",
    "graph networks without networks",
    "parsing but not grammars that are ambiguous",
    "transformers do not need positional encodings",
    "filters that detect and omit outliers",
    "Mice without IFN-\u03b3 or its receptor are resistant to EAM.",
    "denoising but not methods that were evaluated by ten people on a very large set of images",
    # other languages
    "apprentissage sans \u00e9tiquettes",
    "Lernen ohne neuronale Netze, nicht Bildverarbeitung",
    "modelos no lineales, no param\u00e9tricos",
    # topics, terms and properties
    "signature schemes without a random oracle",
    "graphs excluding a minor",
    "drivers ignoring traffic signs",
    "models ignoring context",
    "sufficient but not necessary conditions",
    "functions that are not differentiable",
    "Hamiltonians that do not depend on time",
    "permutations avoiding patterns",
    "non-COVID-19 hospitalization",
    "non-NP-hard scheduling problems",
    "non-LTE line formation",
    "non-PSD kernels",
    "non-BPS black holes",
    "\u4e0d\u5305\u62ec\u7efc\u8ff0\u7684\u6df1\u5ea6\u5b66\u4e60",
    # no words
    "",
    "?!",
    "not",
    ", not ,",
    "(not )",
    "\x00 but not \x00",
]


def test_readings() -> None:
    for q, expected in READ.items():
        understood = read(q)
        assert understood is not None, q
        assert (understood.wanted, list(understood.excluded), list(understood.avoided)) == expected, q


def test_questions_that_are_searched_for_as_they_are() -> None:
    assert [q for q in KEPT if read(q) is not None] == []


@pytest.mark.parametrize("kind", OTHER_WORDS)
def test_other_words_of_exclusions(kind: str) -> None:
    for q in OTHER_WORDS[kind]:
        understood = read(q)
        assert understood is not None, q
        assert (understood.wanted, getattr(understood, kind)) == ("parsing", ("chatbots",)), q
    for kind_of_paper in ("no surveys: parsing", "parsing, no surveys"):
        assert read(kind_of_paper) == Understood("parsing", ("surveys",), ())


def counted(**papers: int) -> Callable[[str], int]:
    """A count of papers: ``deep_learning=3`` have this phrase, ``title_deep_learning=2`` have it in their title."""

    def count(expression: str) -> int:
        column, _, forms = expression.rpartition("title : ")
        phrases = [" ".join(re.findall(r"\w+", form)) for form in forms.split(" OR ")]
        prefix = "title " if expression != column + forms else ""
        return sum(papers.get(f"{prefix}{phrase}".replace(" ", "_"), 0) for phrase in phrases)

    return count


def test_what_papers_use_as_a_term_is_kept() -> None:
    few = {"wavelets": 1000, "title_wavelets": 100, "BERT": 1000, "minors": 1000}
    for q, negations in (
        ("denoising without wavelets", {"without_wavelets": 5}),
        ("denoising w/o wavelets", {"without_wavelets": 5}),
        ("denoising with no wavelets or curvelets", {"mitigate_wavelets": 50}),
        ("denoising without any wavelets", {"without_any_wavelets": 1, "title_without_any_wavelets": 1}),
        ("denoising not based on wavelets", {"without_wavelets": 2, "title_without_wavelets": 2}),
        ("denoising without curvelets", {"without_curvelets": 1, "curvelets": 20}),
        ("encoders other than BERT", {"other_than_BERT": 5}),
        ("graphs excluding minors", {"excluding_minors": 5}),
    ):
        assert read(q, counted(**few)) is not None
        assert read(q, counted(**few, **negations)) is None, q
    count = counted(**few, without_BERT=9, not_BERT=9, excluding_minors=9, no_wavelets=9)
    for q in ("encoders but not BERT", "graphs, excluding minors", "denoising without wavelets"):
        assert read(q, count) == read(q) is not None


@pytest.mark.parametrize(
    ("q", "papers", "wanted", "thing"),
    [
        ("sparse rather than dense retrieval", "sparse_retrieval", "sparse retrieval", "dense retrieval"),
        ("papers on sound but not complete proof systems", "sound_and_complete", "papers on sound proof systems",
         "complete proof systems"),
        ("translation but not neural networks", "translation", "translation", "neural networks"),
        ("graphs but not neural networks", "graphs_networks", "graphs", "neural networks"),
    ],
)  # fmt: skip
def test_adjectives_share_a_noun(q: str, papers: str, wanted: str, thing: str) -> None:
    understood = read(q, counted(**{papers: 5}))
    assert understood is not None
    assert (understood.wanted, understood.excluded + understood.avoided) == (wanted, (thing,))


ABSTRACT = (
    "Object detection is often done with convolutional networks, but not with trees. We propose a method without any "
    "networks, which is fast."
)


@pytest.mark.parametrize(
    "document",
    [
        ABSTRACT,
        f"Detection with trees\n{ABSTRACT}",
        "In this paper trees are compared with networks, excluding small ones.",
        "Trees are compared with networks, excluding small ones. " * 8,
        "trees but not networks " * 16,
        "trees but not networks, " * 9,
    ],
)
def test_documents_are_not_read(document: str) -> None:
    assert read(document) is None


def test_a_question_without_a_negation_needs_no_reading() -> None:
    for q in ("graph neural networks for molecules", "nonlinear notions of notation", "knots and withouts"):
        assert not may_exclude(q)


# -- searches ------------------------------------------------------------------------------------------------

TEXTS = [
    ("Statistical machine translation", "Phrase tables are compared."),
    ("Neural machine translation (NMT)", "Attention is compared."),
    ("Machine translation of poems", "Translators use neural machine translation."),
    ("Machine translation with NMT systems", "Neural networks, without phrase tables."),
    ("Machine translation by rules", "Grammars are written."),
    ("Translation without phrase tables", "Machine learning of neural machine translation (NMT)."),
    *(
        (f"A note {n} on neural machine translation (NMT)", "Attention without phrase tables.")
        for n in range(6)
    ),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("negation")
    rows = [
        {
            "corpusid": n,
            "title": title,
            "abstract": abstract,
            "publicationdate": f"20{n:02}-01-01",
            "externalids": {"ArXiv": f"08{n:02}.0001"},
        }
        for n, (title, abstract) in enumerate(TEXTS, 1)
    ]
    with opened_library(folder, rows, dense=True) as opened:
        yield opened


WAYS: list[dict[str, Any]] = [
    {"mode": "sparse"},
    {"mode": "sparse", "engine": "feedback"},
    {"mode": "sparse", "engine": "fts5"},
    {"mode": "dense", "min_similarity": -1},
    {"mode": "hybrid", "min_similarity": -1},
]


def numbers(response: Any) -> list[int | None]:
    return [hit.paper.corpus_id for hit in response.results]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_excluded_is_left_out(small: Library, way: dict[str, Any]) -> None:
    found = small.search("machine translation but not neural machine translation", limit=100, **way)
    assert set(numbers(found)) == {1, 5}  # NMT is neural machine translation in these texts
    same = small.search(
        "machine translation", exclude=["neural machine translation", "NMT"], limit=100, **way
    )
    assert found.results == same.results
    assert found.total == same.total
    assert found.to_dict()["understood"] == {
        "wanted": "machine translation",
        "excluded": ["neural machine translation", "NMT"],
        "avoided": [],
    }
    off = small.search(
        "machine translation but not neural machine translation", limit=100, negation="off", **way
    )
    assert len(off.results) == len(TEXTS)
    assert "understood" not in off.to_dict()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_what_is_avoided_comes_last(small: Library, way: dict[str, Any], size: int) -> None:
    q = "machine translation without grammars or poems"
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = small.search(q, limit=size, offset=offset, explain=True, **way)
        pages.append(page)
        offset = page.next_offset
    hits = [hit for page in pages for hit in page.results]
    order = [hit.paper.corpus_id for hit in hits]
    assert sorted(order) == list(range(1, len(TEXTS) + 1))
    assert set(order[-2:]) == {3, 5}
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    for hit in hits:
        assert hit.explain
        assert sum(leg.share for leg in hit.explain) == pytest.approx(hit.score)
        assert (hit.explain[-1].leg == "avoided") == (hit.paper.corpus_id in (3, 5))
    assert pages[-1].understood is not None
    assert pages[-1].understood.avoided == ("grammars", "poems")
    assert pages[-1].total == len(TEXTS)
    filtered = small.search(q, limit=100, within=["CorpusId:5", "CorpusId:1"], **way)
    assert numbers(filtered) == [1, 5]


def test_a_term_of_the_library_is_kept(small: Library) -> None:
    # Seven of the eight papers with phrase tables have none.
    found = small.search("translation without phrase tables and notes")
    assert found.understood is None


def test_a_title_is_kept(small: Library) -> None:
    found = small.search("translation without phrase tables", fields=["corpus_id"])
    assert numbers(found)[0] == 6
    assert found.understood is None


def test_what_does_without_it_is_not_lowered(small: Library) -> None:
    # Papers 2 and 7 to 12 have attention, and paper 4 has neural networks without phrase tables.
    found = small.search("neural networks rather than phrase tables", mode="sparse", explain=True)
    last = [hit.paper.corpus_id for hit in found.results if hit.explain and hit.explain[-1].leg == "avoided"]
    assert 4 not in last


def test_a_quoted_exclusion_is_read(small: Library) -> None:
    for q in (
        'machine translation but not "neural machine translation"',
        "machine translation excluding \u201cNMT\u201d",
    ):
        assert set(numbers(small.search(q, mode="sparse"))) == {1, 5}
    assert small.search('"machine translation" NOT "neural" but not "rules"').understood is None


def test_query_syntax_is_not_read(small: Library) -> None:
    found = small.search('"machine translation" NOT poems but not rules', syntax="query")
    assert found.understood is None
    with pytest.raises(InvalidRequest, match="negation"):
        small.search("x", negation="on")  # type: ignore[arg-type]


def test_an_exclusion_that_leaves_nothing_says_so(small: Library) -> None:
    found = small.search("rules but not grammars or the poems, or translation", mode="sparse")
    assert found.total == 0
    assert found.warnings == ("What q excludes removes every result: 1 without it.",)


def test_facets_and_batches_read_it_alike(small: Library) -> None:
    q = "machine translation but not neural machine translation"
    facets = small.run_facets(FacetsParameters(q=q, mode="sparse"))
    assert facets.total == 2
    assert small.run_facets(FacetsParameters(q=q, mode="sparse", negation="off")).total == len(TEXTS)
    assert small.run_facets(FacetsParameters(q=q, exact=True)).total == 2
    with pytest.raises(InvalidRequest, match="negation 'off' has no effect without q"):
        FacetsParameters(negation="off")
    [one] = small.search_batch([{"q": q, "mode": "sparse"}])
    assert numbers(one) == numbers(small.search(q, mode="sparse"))


def test_an_abbreviation_stands_for_its_long_form(small: Library) -> None:
    found = small.search("machine translation, excluding NMT", mode="sparse")
    assert found.understood is not None
    assert found.understood.excluded == ("NMT", "neural machine translation")
    assert set(numbers(found)) == {1, 5}


def test_a_question_without_a_negation_has_the_same_bytes(small: Library) -> None:
    for q in (
        "machine translation",
        "non-linear poems",
        "not all poems",
        "translation with and without rules",
    ):
        auto, off = (small.search(q, negation=one).to_dict() for one in ("auto", "off"))  # type: ignore[arg-type]
        assert auto == off


def test_text_shows_what_was_understood(small: Library) -> None:
    from scholarbase.responses.text import as_text

    found = small.search("machine translation but not poems, without grammars", limit=1)
    lines = as_text(found.to_dict()).splitlines()
    assert lines[1:4] == ["Searched for: machine translation", "Left out: poems", "Last: grammars"]
    assert re.match("1 of at least", lines[0])
