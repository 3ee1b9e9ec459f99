"""Whether a number and its unit stand on one line, by the boxes that Chromium draws for them."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

_LOOK: Final = r"""(place) => {
  const COUNTED = /(?<![\w-])\d[\d,.]*\s(?:%|ms|s|min|h|d|KiB|MiB|messages?|hash slots?|slots?|workers?)(?![\w-])/g;
  const seen = [], apart = [];
  const lines = (text, from, length) => {
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, from + length);
    return new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top))).size;
  };
  const texts = document.createTreeWalker(document.querySelector(place), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, box = text.parentElement;
    const found = [...text.data.matchAll(COUNTED)].map((match) => [match[0].split(/\s/, 2).join(" "), match.index]);
    if (found.length === 0 || box.closest("code") || !box.checkVisibility()) continue;
    const before = box.style.cssText;
    const look = (where) => {
      for (const [words, from] of found) if (lines(text, from, words.length) > 1) apart.push(`${words} ${where}`);
    };
    seen.push(...found.map(([words]) => words));
    look("as it stands");
    for (let width = 140; width <= 440; width += 5) {
      box.style.cssText = `display: block; flex: none; min-width: 0; max-width: none; width: ${width}px`;
      look(`in ${width} px`);
    }
    box.style.cssText = before;
  }
  return [seen, apart];
}"""


def units_apart(page: Page, place: str) -> tuple[list[str], list[str]]:
    """The visible numbers with a unit in a part of the page, and those that a line's end parts from it.

    Looked at as they stand, and with each text as narrow as any line might be: every place where a line may end is
    the end of one in some width.
    """
    seen, apart = page.evaluate(_LOOK, place)
    return seen, apart
