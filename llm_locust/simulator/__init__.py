"""A synthetic LLM server: continuous batching on paper, real bytes on the wire. It measures nothing but the client.

``engine`` and ``kv_cache`` are pure state machines in virtual time; ``tokens``, ``faults``, ``openai``, ``ollama`` and
``http`` turn bytes into requests and replies into bytes, without I/O; ``pacing``, ``connection``, ``generation``, ``app``
and ``server`` put them on a socket. ``process.running`` starts the server for a test.
"""
