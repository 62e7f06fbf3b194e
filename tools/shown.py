"""Commands of a document, and what it shows of their output; for tools/check-readme and tools/check-production."""
import re


def section(text, heading):
    """From a heading to the next one of level 2."""
    start = text.index("\n" + heading)
    return text[start:text.index("\n## ", start + 1)]


def blocks(text):
    """[script, what it prints or None] for each ```sh block; a block without a language is what it prints."""
    found = []
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        if language == "sh":
            found.append([body, None])
        elif found and found[-1][1] is None:
            found[-1][1] = body
    return found


def plain(output, counts_may_differ=True):
    """What must agree of an output: not times, process numbers, random names, widths of columns, and large counts."""
    for pattern, by in (
        (r"(?m)actually processed: \d+$", "actually processed: NUMBER"),  # pgbench in a time, not of a number
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \w+", "TIME"),
        (r"\[\d+\]", "[PID]"),
        (r"zen\.\w{6}/", "zen.RANDOM/"),
        (r"\d+\.\d+|\d{4,}" if counts_may_differ else r"\d+\.\d+", "NUMBER"),
        (r"-{2,}", "--"),
        (r"[ \t]+", " "),
        (r" ?\n ?", "\n"),
    ):
        output = re.sub(pattern, by, output)
    return output.strip()
