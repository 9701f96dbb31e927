"""What Locust sees of this project: options, event listeners, the base of shapes. Importing it registers them."""

from llm_locust.plugin.locust_stats import llm_request
from llm_locust.plugin.options import RunOptions
from llm_locust.plugin.registration import register
from llm_locust.plugin.shape import StageShape
from llm_locust.plugin.wiring import Plugin

register()

__all__ = ["Plugin", "RunOptions", "StageShape", "llm_request"]
