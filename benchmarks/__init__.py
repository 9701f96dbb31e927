"""How true and how fast the stream client is, measured against a server that knows: ``python -m benchmarks``."""
