"""Stop words: words that do not tell one query for papers from another.

They are English function words and the words around the topic of a request for literature ("could you list some
studies which show ..."). FTS5 ignores them in free-text queries, BM25 vectors in queries and documents. Phrases and
titles keep every word.

A word is a stop word if it may occur in nearly every query, whatever its topic. Words for a kind of content are not,
however frequent: *survey*, *review*, *method*, *model*, *benchmark*, *search*, *few* and *one* (few-shot, one-class).
Neither are single letters, which are often symbols (*p*-value, vitamin *D*), except for *a* and *i*, and *s* and *t*,
which remain of ``'s`` and ``n't``.
"""

from __future__ import annotations

from typing import Final

_FUNCTION_WORDS = """
a an the
and or but nor so yet if then else than as because since while until although though whether unless
of at by for with about against between among amongst into onto through during before after above below to
from up down in out on off over under within without upon toward towards across along around via per
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves ones
this that these those there here
what which who whom whose when where why how whatever whichever whoever
am is are was were be been being
have has had having do does did doing done
can could may might must shall should will would cannot ought
no not none neither either both each every all any some such other others another own same
more most much many several less least only very too also just even still again further once ever
let lets us s t don didn doesn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ll ve re
etc eg ie
"""

_QUERY_WORDS = """
paper papers article articles publication publications literature
study studies studied studying
research researches researched researching researcher researchers
work works worked authors
show shows showed shown showing
find finds found finding findings
list lists listed listing give gives gave given giving
provide provides provided providing
discuss discusses discussed discussing
mention mentions mentioned mentioning
describe describes described describing
present presents presented presenting
propose proposes proposed proposing
investigate investigates investigated investigating
explore explores explored exploring
examine examines examined examining
address addresses addressed addressing
introduce introduces introduced introducing
focus focuses focused focusing
relate relates related relating regarding concerning
please suggest suggests suggested suggesting recommend
tell know known like want wants need needs looking look seek seeking
use uses used using
"""

STOP_WORDS: Final[frozenset[str]] = frozenset((_FUNCTION_WORDS + _QUERY_WORDS).split())
"""In lower case, not stemmed."""
