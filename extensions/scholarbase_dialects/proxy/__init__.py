"""An intercepting proxy for clients whose base URL is a constant: they get answers from a library.

``destinations`` has the hosts that it answers for, ``authority`` makes their certificates, ``serving`` is the proxy,
and ``command`` is ``scholarbase proxy``, which points a program at it.
"""
