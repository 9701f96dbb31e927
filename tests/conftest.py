"""Settings of the whole suite."""

import os

# Importing Locust patches the standard library for gevent. The tests' own threads and clocks are to stay what they are;
# processes that tests start are patched as a user's are (their environment does not have this).
os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"
