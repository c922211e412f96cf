"""An intercepting proxy for clients whose base URL is a constant: they get answers from a library.

``destinations`` has the hosts that it answers for, ``authority`` makes their certificates, ``serving`` is the proxy,
``environment`` points a command at it, and ``command`` is ``scholarbase proxy``.
"""
