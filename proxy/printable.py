"""Text of strangers, for a terminal: what would command it is shown as what it is.

Problem: topics, subscriptions and consumers are named by clients, and any of them may hold an escape sequence. A
terminal obeys those: it changes its title, hides or rewrites lines that stand there, or answers as if somebody had
typed. A line break makes one line of a log two, and a mark of writing direction turns the rest of the line round.
Rule: whatever Python would not print as it is, blanks excepted, is shown by its escape. JSON does so by itself.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every character escaped that has no picture of its own."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
