import re

from rank_bm25 import BM25Okapi


def rank_passages(texts, q, k1=1.5, b=0.75):
    w = lambda t: re.findall(r"\w+", t.lower())
    bm = BM25Okapi([w(t) for t in texts], k1=k1, b=b)
    s = bm.get_scores(w(q))
    return sorted([(i, float(x)) for i, x in enumerate(s) if x > 0], key=lambda p: (-p[1], p[0]))
