"""A fuzz target over the reply decoder, run by hand: ``python -m tests.fuzz``."""
