"""``/llm/workbench``: what a person fills in by hand, computed and checked by the code that judges runs.

:mod:`.routes` answers the browser, :mod:`.forms` says what the fields are, and everything that is computed is computed in
a process of its own (:mod:`.desk`), so that neither pandas nor a long sum ever holds up the load that Locust makes.
"""
