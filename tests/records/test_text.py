"""Text from elsewhere on one line."""

from llm_locust.records.text import LONGEST, one_line


def test_one_line_of_printable_characters() -> None:
    assert one_line("a\r\n\tb\x1b[31m\u2028c  d") == "a b [31m c d"


def test_a_long_text_is_cut_to_the_limit() -> None:
    assert one_line("x" * 300, 300) == "x" * 300
    assert one_line("x" * 301, 300) == "x" * 297 + "..."
    assert one_line("x" * 5000) == "x" * (LONGEST - 3) + "..."
