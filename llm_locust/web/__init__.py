"""What people see in a browser while a run goes on, and what Prometheus reads of it."""
