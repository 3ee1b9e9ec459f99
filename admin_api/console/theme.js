// Light, dark, or what the system says. Kept in this browser; storage may be forbidden, then it lasts as long as the page.
"use strict";

(() => {
  const NAME = "keyline-theme";
  let chosen = "auto";
  try {
    chosen = localStorage.getItem(NAME) ?? "auto";
  } catch {
    // No storage: the system decides.
  }

  function apply(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  }

  apply(chosen);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(document.documentElement.dataset.theme ?? "auto"));
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    if (!select) return; // The page to log in has none.
    select.value = chosen;
    select.addEventListener("change", () => {
      apply(select.value);
      try {
        localStorage.setItem(NAME, select.value);
      } catch {
        // As above.
      }
    });
  });
})();
