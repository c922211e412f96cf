"""What agents did: sessions recorded call by call, with their budgets and reports.

``session`` has the plain data, ``store`` the sessions of a folder, ``writer`` the thread that writes their file,
``rows`` and ``schema`` its SQL, ``progress`` what the calls have come to, ``recording`` a call on its way, ``report``
the figures. Running sessions again and making conversations of them is for :mod:`scholarbase.tools`.
"""
