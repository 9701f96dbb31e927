"""Writes ``docs/reference/`` from the code: ``python -m docs.generate``, or ``make docs``. One page a module."""
