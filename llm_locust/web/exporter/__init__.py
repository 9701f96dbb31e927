"""The Prometheus exporter of the master: the live picture of a run as metrics, to be drawn together with the engine's."""
