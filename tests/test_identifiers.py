"""Identifiers. The ids are those of real papers, looked up at the sites that assign them."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scholarbase import identifiers
from scholarbase.bibliographies.ids import field_ids
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import Identifier, dois, parse

SHA = "649def34f8be52c8b66281af98ae884c09aef38b"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        # arXiv, new and old
        ("2309.06180", "arXiv:2309.06180"),
        ("2309.06180v3", "arXiv:2309.06180"),
        ("  arXiv:2309.06180V12\n", "arXiv:2309.06180"),
        ("ARXIV:0704.0001", "arXiv:0704.0001"),
        ("arxiv: 1412.6980", "arXiv:1412.6980"),
        ("hep-th/9901001", "arXiv:hep-th/9901001"),
        ("HEP-TH/9901001v2", "arXiv:hep-th/9901001"),
        ("math.GT/0309136", "arXiv:math/0309136"),
        ("arXiv:math.GT/0309136v1", "arXiv:math/0309136"),
        ("cond-mat.supr-con/9609004", "arXiv:cond-mat/9609004"),
        # arXiv links
        ("https://arxiv.org/abs/2309.06180", "arXiv:2309.06180"),
        ("http://www.arxiv.org/pdf/2309.06180v1.pdf", "arXiv:2309.06180"),
        ("https://arxiv.org/pdf/2309.06180v2?download=1#page=3", "arXiv:2309.06180"),
        ("https://arxiv.org/html/2309.06180v1", "arXiv:2309.06180"),
        ("https://export.arxiv.org/abs/hep-th/9901001/", "arXiv:hep-th/9901001"),
        ("https://arxiv.org/abs/hep-th%2F9901001", "arXiv:hep-th/9901001"),
        ("https://www.alphaxiv.org/abs/2309.06180", "arXiv:2309.06180"),
        ("https://ar5iv.labs.arxiv.org/html/math/0309136", "arXiv:math/0309136"),
        ("https://ar5iv.org/abs/2309.06180", "arXiv:2309.06180"),
        ("arxiv.org/abs/2309.06180", "arXiv:2309.06180"),
        ("arXiv:https://arxiv.org/abs/2309.06180", "arXiv:2309.06180"),
        # as texts and other sites write arXiv ids
        ("arXiv:1706.03762v5  [cs.CL]  6 Dec 2017", "arXiv:1706.03762"),
        ("arXiv:1706.03762v5 [cs.CL]", "arXiv:1706.03762"),
        ("arXiv:hep-th/9711200v3 [hep-th] 22 Jan 1998", "arXiv:hep-th/9711200"),
        ("arXiv:cond-mat/9609004 [cond-mat.supr-con]", "arXiv:cond-mat/9609004"),
        ("arxiv 1706.03762", "arXiv:1706.03762"),
        ("arXiv preprint arXiv:1706.03762", "arXiv:1706.03762"),
        ("arXiv preprint 1706.03762v5 ", "arXiv:1706.03762"),
        ("https://huggingface.co/papers/1706.03762", "arXiv:1706.03762"),
        ("huggingface.co/papers/1706.03762", "arXiv:1706.03762"),
        ("https://hf.co/papers/1706.03762", "arXiv:1706.03762"),
        ("https://www.semanticscholar.org/arxiv/1706.03762", "arXiv:1706.03762"),
        ("semanticscholar.org/arxiv/1706.03762v2", "arXiv:1706.03762"),
        ("https://www.arxiv-vanity.com/papers/1706.03762/", "arXiv:1706.03762"),
        ("https://scirate.com/arxiv/1706.03762", "arXiv:1706.03762"),
        ("https://huggingface.co/papers/trending", "URL:https://huggingface.co/papers/trending"),
        ("https://huggingface.co/google/bert", "URL:https://huggingface.co/google/bert"),
        # Semantic Scholar
        (f"https://www.semanticscholar.org/reader/{SHA}", f"sha:{SHA}"),
        ("CorpusId 13756489", "CorpusId:13756489"),
        ("CorpusId:999999999999999999", "CorpusId:999999999999999999"),
        ("CorpusId:13756489", "CorpusId:13756489"),
        ("CorpusID:013756489", "CorpusId:13756489"),
        ("corpusid: 13756489", "CorpusId:13756489"),
        (SHA.upper(), f"sha:{SHA}"),
        (f"sha:{SHA}", f"sha:{SHA}"),
        (f"https://www.semanticscholar.org/paper/{SHA}", f"sha:{SHA}"),
        (f"https://www.semanticscholar.org/paper/Construction-of-the-Graph/{SHA}?utm=1", f"sha:{SHA}"),
        ("https://www.semanticscholar.org/p/13756489", "CorpusId:13756489"),
        ("https://api.semanticscholar.org/CorpusID:13756489", "CorpusId:13756489"),
        ("https://api.semanticscholar.org/graph/v1/paper/ARXIV:2106.15928", "arXiv:2106.15928"),
        ("https://api.semanticscholar.org/graph/v1/paper/hep-th/9901001/references?limit=5", "arXiv:hep-th/9901001"),
        ("Key:smith2020", "Key:smith2020"),
        ("key: Smith:2020/a_B+c", "Key:Smith:2020/a_B+c"),
        ("Key:DBLP:conf/acl/LoWNKW20", "Key:DBLP:conf/acl/LoWNKW20"),
        ("Key:http://zotero.org/users/1/items/ABCD1234", "Key:http://zotero.org/users/1/items/ABCD1234"),
        ("Key:my refs.bib/1706.03762", "Key:my refs.bib/1706.03762"),
        ("Key:12", "Key:12"),
        ("Key:Mu\u0308ller2020", "Key:M\u00fcller2020"),
        # DOI
        ("10.18653/v1/N18-3011", "DOI:10.18653/v1/n18-3011"),
        ("DOI:10.18653/v1/N18-3011", "DOI:10.18653/v1/n18-3011"),
        ("doi: 10.1000/182", "DOI:10.1000/182"),
        ("DOI 10.18653/v1/N18-3011", "DOI:10.18653/v1/n18-3011"),
        ("doi 10.48550/arXiv.2309.06180", "arXiv:2309.06180"),
        ("https://doi.org/10.18653/V1/N18-3011", "DOI:10.18653/v1/n18-3011"),
        ("http://dx.doi.org/10.1016%2F0550-3213%2894%2990449-9", "DOI:10.1016/0550-3213(94)90449-9"),
        ("DOI:https://doi.org/10.1000/182", "DOI:10.1000/182"),
        ("10.1002/(SICI)1097-4571(199009)41:6<391::AID-ASI1>3.0.CO;2-9",
         "DOI:10.1002/(sici)1097-4571(199009)41:6<391::aid-asi1>3.0.co;2-9"),
        ("10.48550/arXiv.2309.06180", "arXiv:2309.06180"),
        ("https://doi.org/10.48550/ARXIV.2309.06180", "arXiv:2309.06180"),
        ("doi:10.48550/arXiv.hep-th/9901001", "arXiv:hep-th/9901001"),
        # ACL Anthology
        ("ACL:W12-3903", "ACL:W12-3903"),
        ("acl:p18-1001", "ACL:P18-1001"),
        ("ACL:2020.acl-main.447", "ACL:2020.acl-main.447"),
        ("https://aclanthology.org/2020.acl-main.447/", "ACL:2020.acl-main.447"),
        ("https://aclanthology.org/P18-1001.pdf", "ACL:P18-1001"),
        ("https://www.aclweb.org/anthology/P18-1001", "ACL:P18-1001"),
        # PubMed, PubMed Central, MAG, DBLP
        ("PMID:19872477", "PMID:19872477"),
        ("https://pubmed.ncbi.nlm.nih.gov/19872477/", "PMID:19872477"),
        ("https://www.ncbi.nlm.nih.gov/pubmed/19872477", "PMID:19872477"),
        ("PMCID:2323736", "PMCID:2323736"),
        ("pmcid:PMC2323736", "PMCID:2323736"),
        ("PMC2323736", "PMCID:2323736"),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC2323736/", "PMCID:2323736"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC2323736/", "PMCID:2323736"),
        ("MAG:112218234", "MAG:112218234"),
        ("DBLP:conf/acl/LoWNKW20", "DBLP:conf/acl/LoWNKW20"),
        ("https://dblp.org/rec/conf/acl/LoWNKW20.html", "DBLP:conf/acl/LoWNKW20"),
        # a collection's own ids, as BEIR's corpora have them
        ("Doc:MED-10", "Doc:MED-10"),
        ("doc: med-10", "Doc:med-10"),
        ("Doc:<dbpedia:Animalia_(book)>", "Doc:<dbpedia:Animalia_(book)>"),
        ("Doc:10.1000/182", "Doc:10.1000/182"),
        ("Doc:https://example.org/x", "Doc:https://example.org/x"),
        # other links
        ("URL:https://arxiv.org/abs/2106.15928v1", "arXiv:2106.15928"),
        ("URL:http://Example.ORG:80/Paper/?b=1#top", "URL:https://example.org/Paper?b=1"),
        ("https://example.org/paper//", "URL:https://example.org/paper"),
        ("https://arxiv.org/list/cs.CL/recent", "URL:https://arxiv.org/list/cs.CL/recent"),
        ("https://www.semanticscholar.org/author/1741101", "URL:https://www.semanticscholar.org/author/1741101"),
    ],
)  # fmt: skip
def test_every_form_is_parsed(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


SICI = "10.1002/(sici)1097-4571(19980401)49:4<327::aid-asi4>3.0.co;2-4"
COMPONENT = "10.1659/0276-4741(2004)024[0141:spocmp]2.0.co;2"
ACM = "10.1145/1137627.1137631"


@pytest.mark.parametrize(
    ("text", "dois"),
    [
        # SICI forms, which have brackets, colons and semicolons: as they are, in links, in HTML, in BibTeX
        (SICI.upper(), [SICI]),
        (COMPONENT, [COMPONENT]),
        (SICI.replace("<", "%3C").replace(">", "%3E"), [SICI]),
        (SICI.replace("<", "&lt;").replace(">", "&gt;"), [SICI]),
        (SICI.replace("<", "&amp;lt;").replace(">", "&amp;gt;"), [SICI]),
        (SICI.replace("<", r"{\textless}").replace(">", r"{\textgreater}"), [SICI]),
        (SICI.replace("<", r"\textless{}").replace(">", r"\textgreater{}"), [SICI]),
        (SICI.replace("<", "$<$").replace(">", "$>$"), [SICI]),
        (SICI.replace("<", " <").replace(">", "> "), [SICI]),
        (f"https://doi.org/{SICI}", [SICI]),
        ("10.1002/(SICI)1096-9861(19960101)364:1<1::AID-CNE1>3.0.CO;2-#",
         ["10.1002/(sici)1096-9861(19960101)364:1<1::aid-cne1>3.0.co;2-#"]),
        ("https://doi.org/10.1002/(SICI)1096-9861(19960101)364:1%3C1::AID-CNE1%3E3.0.CO;2-%23",
         ["10.1002/(sici)1096-9861(19960101)364:1<1::aid-cne1>3.0.co;2-#"]),
        (f"{SICI}; {COMPONENT}", [SICI, COMPONENT]),
        # escapes of BibTeX
        (r"10.1007/978-3-540-73750-6\_4", ["10.1007/978-3-540-73750-6_4"]),
        (r"10.1007/978-3-540-73750-6{\_}4", ["10.1007/978-3-540-73750-6_4"]),
        # prefixes and links
        ("info:doi/10.1000/182", ["10.1000/182"]),
        ("DOI: 10.1000/182", ["10.1000/182"]),
        ("doi10.1000/182", ["10.1000/182"]),
        ("doi.acm.org/10.1145/1137627.1137631", [ACM]),
        ("http://doi.acm.org/10.1145/1137627.1137631", [ACM]),
        ("https://dl.acm.org/doi/abs/10.1145/1137627.1137631", [ACM]),
        ("https://dl.acm.org/doi/pdf/10.1145/1137627.1137631?download=true", [ACM]),
        ("https://onlinelibrary.wiley.com/doi/10.1002/asi.20317/abstract", ["10.1002/asi.20317"]),
        ("https://onlinelibrary.wiley.com/doi/10.1002/asi.20317/full#references", ["10.1002/asi.20317"]),
        ("https://www.frontiersin.org/articles/10.3389/fpsyg.2013.00863/full", ["10.3389/fpsyg.2013.00863"]),
        ("https://iopscience.iop.org/article/10.1088/1742-6596/219/3/032019/pdf", ["10.1088/1742-6596/219/3/032019"]),
        ("https://link.springer.com/content/pdf/10.1007/s11192-009-0146-3.pdf", ["10.1007/s11192-009-0146-3"]),
        ("https://journals.plos.org/plosone/article?id=10.1371/journal.pone.0012345&x=1",
         ["10.1371/journal.pone.0012345"]),
        ("https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.full.pdf", ["10.1101/2020.01.01.123456"]),
        ("https://doi-org.proxy.example.edu/10.1000/182", ["10.1000/182"]),
        ("doi.org/10.1186/s12874-018-0541-7", ["10.1186/s12874-018-0541-7"]),
        ("10.1016%2FJ.DAM.2012.12.006", ["10.1016/j.dam.2012.12.006"]),
        # punctuation, brackets, spaces, and characters without width
        ("10.1016/j.dam.2012.12.006.", ["10.1016/j.dam.2012.12.006"]),
        ("(10.1016/0550-3213(94)90449-9),", ["10.1016/0550-3213(94)90449-9"]),
        ("<https://doi.org/10.1000/182>", ["10.1000/182"]),
        ("10.1000/ 182", ["10.1000/182"]),
        ("10. 1145/3154499", ["10.1145/3154499"]),
        ("10.1007/s11390- 016-1673-z", ["10.1007/s11390-016-1673-z"]),
        ("10.1090/S0002-9939-2015-12610-X#sthash.pHkjNBMN.dpuf", ["10.1090/s0002-9939-2015-12610-x"]),
        ('10.1007/s00236-012-0164-0"', ["10.1007/s00236-012-0164-0"]),
        ("10.1000/\u200b182", ["10.1000/182"]),
        ("10.1007/978\u20103\u2010540", ["10.1007/978-3-540"]),
        # several
        ("10.1145/2925416 10.1109/CCC.2012.36", ["10.1145/2925416", "10.1109/ccc.2012.36"]),
        ("10.1145/2925416, 10.1109/CCC.2012.36", ["10.1145/2925416", "10.1109/ccc.2012.36"]),
        ("10.1145/2925416;10.1109/CCC.2012.36", ["10.1145/2925416", "10.1109/ccc.2012.36"]),
        ("https://doi.org/10.1145/2925416;https://doi.org/10.1145/2925416", ["10.1145/2925416"]),
        ("10.1145/2925416 and doi:10.1109/CCC.2012.36", ["10.1145/2925416", "10.1109/ccc.2012.36"]),
        # none
        ("", []),
        ("in press", []),
        ("10.1000", []),
        ("10.1000/", []),
        ("version 2.10.1000/182", []),
    ],
)  # fmt: skip
def test_all_dois_of_a_field(text: str, dois: list[str]) -> None:
    assert identifiers.dois(text) == dois
    for doi in dois:
        assert identifiers.dois(doi) == [doi]
        assert str(parse(doi)) == f"DOI:{doi}"
    if (
        dois
        and " and " not in text
        and text.isprintable()
        and ". " not in text
        and "/ " not in text
        and "- " not in text
    ):
        assert str(parse(text)) == f"DOI:{dois[0]}", "a request is read as a record is"


def test_fields_of_ids() -> None:
    for scheme, value, ids in (
        ("DOI", "10.1145/2925416 10.1109/CCC.2012.36", ["DOI:10.1145/2925416", "DOI:10.1109/ccc.2012.36"]),
        ("DOI", "10.48550/arXiv.2309.06180", ["arXiv:2309.06180"]),
        ("DOI", "arXiv:2309.06180", ["arXiv:2309.06180"]),
        ("DOI", "none yet", []),
        ("arXiv", "1011.1669v3", ["arXiv:1011.1669"]),
        ("arXiv", "arXiv:1011.1669v3 [cond-mat]", ["arXiv:1011.1669"]),
        ("arXiv", "https://arxiv.org/pdf/1011.1669.pdf", ["arXiv:1011.1669"]),
        ("arXiv", 806.1945, ["arXiv:0806.1945"]),
        ("PMID", "19872477", ["PMID:19872477"]),
        ("PMID", 19872477, ["PMID:19872477"]),
        ("PMID", "PMID: 19872477", ["PMID:19872477"]),
        ("PMID", "https://pubmed.ncbi.nlm.nih.gov/19872477/", ["PMID:19872477"]),
        ("PMID", "PMC2323736", ["PMCID:2323736"]),
        ("PMCID", "2323736", ["PMCID:2323736"]),
        ("PMCID", "PMCID: PMC2323736", ["PMCID:2323736"]),
        ("PMID", "unknown", []),
        ("PMID", None, []),
    ):
        assert list(map(str, field_ids(scheme, value))) == ids


def test_invalid_ids_are_named_in_the_message() -> None:
    for text, part in (
        ("", "empty"),
        (" \t\n", "empty"),
        ("13756489", "CorpusId:13756489, PMID:13756489 or MAG:13756489"),
        ("٢٣٠٩.٠٦١٨٠", "not a valid paper id"),
        ("CorpusId:١٢٣", "positive whole number"),
        ("CorpusId:1000000000000000000", "positive whole number"),
        ("CorpusId:0", "positive whole number"),
        ("CorpusId:-5", "positive whole number"),
        ("CorpusId:1234567890123456789", "positive whole number"),
        ("2313.06180", "not a valid paper id"),
        ("2300.06180", "not a valid paper id"),
        ("arXiv:1501.0123", "not a valid arXiv id"),
        ("arXiv:1412.69801", "not a valid arXiv id"),
        ("arXiv:0703.0001", "not a valid arXiv id"),
        ("hep-xx/9901001", "not a valid paper id"),
        ("hep-th/9913001", "not a valid paper id"),
        ("https://arxiv.org/abs/2313.06180", "'2313.06180'"),
        ("arXiv:https://doi.org/10.1000/182", "not a valid arXiv id"),
        ("DOI:11.1000/182", "not a valid DOI id"),
        ("10.1000/a b", "not a valid paper id"),
        ("ACL:18-1001", "not a valid ACL id"),
        ("PMCID:PMC", "not a valid PMCID id"),
        ("DBLP:LoWNKW20", "not a valid DBLP id"),
        ("sha:123", "40 hexadecimal digits"),
        (SHA[:39], "not a valid paper id"),
        ("Doc:", "not a valid Doc id"),
        ("Doc:two words", "not a valid Doc id"),
        ("Doc:" + "1" * 1001, "not a valid Doc id"),
        ("URL:", "not a valid link"),
        ("URL:not a link", "not a valid link"),
        ("http://", "not a valid link"),
        ("https://user:secret@example.org/x", "not a valid link"),
        ("arxiv papers", "not a valid paper id"),
        ("arXiv preprint", "not a valid paper id"),
        ("pmid numbers", "not a valid paper id"),
        ("MAG 112218234", "not a valid paper id"),
        ("arXiv:1706.03762 [see there]", "not a valid arXiv id"),
        ("PMID:19872477 [cs.CL]", "not a valid PMID id"),
        ("Attention Is All You Need", "not a valid paper id"),
        ("2309.\x0006180", "cannot be printed"),
        ("arXiv:2309.06180\u200b", "cannot be printed"),
        ("\ud800", "cannot be printed"),
        ("K" * 3000, "3000 characters"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            parse(text)
        assert part in str(caught.value)
        assert str(caught.value).endswith((".", "PubMed."))


def test_other_types_are_invalid() -> None:
    with pytest.raises(InvalidRequest, match="must be a string"):
        parse(123)  # type: ignore[arg-type]


def test_prefixed_and_old_arxiv_ids_resolve() -> None:
    """The published server finds none of these."""
    assert {parse(t) for t in ("arXiv:hep-th/9901001", "ARXIV:hep-th/9901001v1", "hep-th/9901001")} == {
        Identifier("arXiv", "hep-th/9901001")
    }


PREFIXES = (
    "", "arXiv:", "CorpusId:", "DOI:", "ACL:", "PMID:", "PMCID:", "PMC", "MAG:", "DBLP:", "sha:", "URL:",
    "https://", "http://arxiv.org/abs/", "https://doi.org/10.1000/", "https://doi.org/", "doi.org/10.1000/",
    "https://api.semanticscholar.org/graph/v1/paper/", "https://www.semanticscholar.org/paper/",
    "https://aclanthology.org/", "https://pubmed.ncbi.nlm.nih.gov/", "https://dblp.org/rec/", "URL:https://",
    "10.1000/", "10.48550/arXiv.", "hep-th/", "2309.", "DOI:https://doi.org/",
)  # fmt: skip
TAILS = st.text(max_size=40) | st.text(string.ascii_letters + string.digits + "./:-_?#%@ ()", max_size=40)


@given(st.sampled_from(PREFIXES), TAILS)
@example("https://", "a.b/x/#?")
@example("https://doi.org/10.1000/", "%20")
@example("https://doi.org/10.1000/", "%e2%84%aa")
@example("https://dblp.org/rec/", "a/b%0a")
@example("https://www.", "arxiv.org/abs/..")
def test_any_text_is_parsed_or_rejected_and_parsing_is_stable(prefix: str, tail: str) -> None:
    try:
        identifier = parse(prefix + tail)
    except InvalidRequest:
        return
    assert parse(str(identifier)) == identifier
    assert str(identifier).isprintable()


@given(st.text())
def test_the_functions_of_one_scheme_never_raise(text: str) -> None:
    for read in (
        identifiers.arxiv_id, identifiers.arxiv_id_from_number, identifiers.doi, identifiers.sha,
        identifiers.number, identifiers.pmcid, identifiers.acl_id, identifiers.dblp_key,
    ):  # fmt: skip
        value = read(text)
        assert value is None or value


def test_an_arxiv_id_stored_as_a_number_is_repaired() -> None:
    for number, arxiv_id in (
        # Ids in a copy of the arXiv snapshot, and the papers' true ids by their titles on arXiv.
        ("804.3575", "0804.3575"),
        ("903.451", "0903.4510"),
        ("1607.0253300000002", "1607.02533"),
        ("1811.0126699999998", "1811.01267"),
        ("1610.0582", "1610.05820"),
        ("1406.5", "1406.5000"),
        ("1313.5", None),
        ("1607.025338", None),
        ("17.5", None),
        ("hep-th/9901001", None),
    ):
        assert identifiers.arxiv_id_from_number(number) == arxiv_id


def test_ids_have_five_digits_from_january_2015_on() -> None:
    """https://info.arxiv.org/help/arxiv_identifier.html."""
    assert identifiers.arxiv_id_from_number("1412.123") == "1412.1230"
    assert identifiers.arxiv_id_from_number("1501.1234") == "1501.12340"


@given(st.integers(7, 30), st.integers(1, 12), st.integers(1, 99999))
def test_every_arxiv_id_can_be_restored_from_a_number(year: int, month: int, serial: int) -> None:
    if year == 7 and month < 4:
        return
    arxiv_id = f"{year:02}{month:02}.{serial % 10000:04}" if year < 15 else f"{year}{month:02}.{serial:05}"
    if float(arxiv_id).is_integer():
        return
    assert identifiers.arxiv_id(arxiv_id) == arxiv_id
    assert identifiers.arxiv_id_from_number(repr(float(arxiv_id))) == arxiv_id


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("arXiv:806.1945", "arXiv:0806.1945"),
        ("806.1945", "arXiv:0806.1945"),
        ("1910.0773800000002", "arXiv:1910.07738"),
        ("https://arxiv.org/abs/1910.0773800000002", "arXiv:1910.07738"),
    ],
)
def test_a_damaged_arxiv_id_of_a_request_is_repaired_if_only_one_id_can_be_meant(
    text: str, canonical: str
) -> None:
    assert str(parse(text)) == canonical


def test_an_arxiv_id_that_lacks_a_digit_somewhere_is_not_guessed() -> None:
    with pytest.raises(InvalidRequest, match=r"Perhaps arXiv:1910\.07730 is meant\."):
        parse("arXiv:1910.0773")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "https://academic.oup.com/x/article/doi/10.1093/bioinformatics/btaa1/5678",
            "10.1093/bioinformatics/btaa1",
        ),
        ("https://www.biorxiv.org/content/10.1101/098765.full.pdf", "10.1101/098765"),
        ("10.1000/x</p>", "10.1000/x"),
        (r"10.1000\/x", "10.1000/x"),
    ],
)
def test_dois_with_what_links_and_markup_add(text: str, expected: str) -> None:
    assert dois(text) == [expected]
