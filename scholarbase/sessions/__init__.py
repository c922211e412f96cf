"""What agents did: sessions recorded call by call, with their budgets and reports.

``session`` has the plain data, ``store`` the sessions of a folder or a database and their SQL, ``writer`` the thread
that writes them, ``progress`` the sums over a session's calls, ``recording`` the steps of recording a call, ``report``
the figures.
"""
