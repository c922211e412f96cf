"""What agents did: sessions recorded call by call, with budgets, reports, replay and conversations for training.

``session`` has the plain data, ``store`` the file and the thread that writes it, ``recording`` a call on its way,
``report`` the figures, ``replay`` the comparison with a library, ``conversations`` the export.
"""
