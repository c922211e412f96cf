"""The tests. One thread for BLAS and torch, set before either is loaded: waiting threads use CPU time."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
