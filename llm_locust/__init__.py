"""Load testing for LLM serving on Locust: open arrivals, per-request timing, goodput with its evidence."""
