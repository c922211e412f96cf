"""What agents did: sessions recorded call by call, with their budgets and reports.

``session`` has the plain data, ``store`` the sessions of a folder, ``writer`` the thread that writes their file,
``registry`` what the process remembers of it, ``admissions`` the calls that have no record yet, ``rows`` and ``schema``
the SQL, ``progress`` the sums over a session's calls, ``recording`` the steps of recording one call, ``report`` the
figures. :mod:`scholarbase.tools` replays sessions and makes conversations of them.
"""
