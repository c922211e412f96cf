"""Answer sets built from questions: rewrites, several sources, citations, a prefilter, judges."""
