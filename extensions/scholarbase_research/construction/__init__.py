"""Answer sets of questions, built with judges and checked by people."""
