// What the theme leaves to do for readers with a keyboard or a screen reader.
"use strict";

function improve() {
  // Boxes that scroll can be reached with the keyboard.
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
  // Screen readers list the buttons of each code block as a landmark, which needs a name of its own.
  document.querySelectorAll(".md-code__nav").forEach((buttons, index) => {
    buttons.setAttribute("aria-label", `Code block ${index + 1}`);
  });
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
}

const article = document.querySelector("article");
if (article) {
  new MutationObserver(improve).observe(article, { childList: true, subtree: true });
  new ResizeObserver(improve).observe(article);
}
improve();
