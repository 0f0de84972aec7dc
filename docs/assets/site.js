// What the theme leaves without a name, or out of the keyboard's reach, as soon as it has made it
function complete() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach(e => { e.tabIndex = 0; });
}
complete();
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
