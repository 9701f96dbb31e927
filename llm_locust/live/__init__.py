"""What is known of a run while it goes on: counts, sketches and series in bounded memory. The files judge; this shows."""
