"""``python -m llm_locust`` is ``llm-locust``."""

from llm_locust.cli import main

if __name__ == "__main__":
    main()
