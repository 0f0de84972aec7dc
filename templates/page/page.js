"use strict";
// Stepping, folding, blame and colours of the page. Without JavaScript all steps are shown one below the other.
(() => {
  const root = document.documentElement;
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const sections = all("main > section");
  const links = all("nav li a");
  const rail = $("#rail");
  const narrow = matchMedia("(max-width: 60em)");

  root.classList.add("js");
  for (const element of [$("#theme"), $(".hint"), $("#history"), ...all(".pager, .tools")]) element.hidden = false;

  // --- Steps: each is a section; the fragment selects the one to show, and the place in it.

  const current = () => sections.findIndex((section) => section.classList.contains("current"));
  const link = (section) => links.find((a) => a.hash === `#${section.id}`);

  // The next section when stepping: sections without changes are opened only by name.
  function beside(k, by) {
    do k += by; while (sections[k]?.classList.contains("left-out"));
    return sections[k];
  }

  function show(section) {
    for (const other of sections) other.classList.toggle("current", other === section);
    for (const a of links) a.removeAttribute("aria-current");
    link(section).setAttribute("aria-current", "step");
    link(section).scrollIntoView({ block: "nearest" });
    const k = sections.indexOf(section);
    for (const a of all(".pager a")) {
      const neighbour = beside(k, a.rel === "prev" ? -1 : 1);
      a.style.visibility = neighbour ? "" : "hidden";
      if (neighbour) {
        a.href = `#${neighbour.id}`;
        $("span", a).textContent = $(".name", link(neighbour))?.textContent ?? link(neighbour).textContent;
      }
    }
  }

  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target?.closest("main > section") ?? sections[0];
    show(section);
    if (narrow.matches) rail.open = false;
    if (target && target !== section) {
      target.scrollIntoView({ block: "center" });
      target.focus({ preventScroll: true });
    } else if (target) {
      section.scrollIntoView();
      if (!document.activeElement.closest("nav")) $("h2", section).focus({ preventScroll: true });
    }
  }

  // Unlike setting the fragment, this keeps the focus, and completes before it returns.
  function go(id) {
    history.pushState(null, "", `#${id}`);
    open();
  }

  function step(by) {
    const next = beside(current(), by);
    if (!next) return;
    go(next.id);
    if (document.activeElement.closest("nav")) link(next).focus();
  }

  rail.open = !narrow.matches;
  narrow.addEventListener("change", () => { rail.open = !narrow.matches; });
  addEventListener("hashchange", open);
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    if (event.target.closest("input, select, textarea, [role=region]")) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
      ?? (event.target.closest("nav") && { ArrowUp: -1, ArrowDown: 1 }[event.key]);
    if (by) {
      event.preventDefault();
      step(by);
    }
  });

  // --- Folds: a template stores the hidden lines once for all steps.

  const lines = $("#lines").content.children;

  function unfold(button) {
    const body = document.createElement("tbody");
    body.id = `unfolded-${all("tbody[id^=unfolded]").length + 1}`;
    let old = Number(button.dataset.old), now = Number(button.dataset.new);
    for (const range of button.dataset.lines.split(",")) {
      const [first, last] = range.split("-").map(Number);
      for (let k = first; k <= last; k++) {
        const row = body.insertRow();
        row.className = "same";
        for (const [number, css] of [[old++, "old"], [now++, "new"]]) {
          const count = row.insertCell();
          count.className = "n";
          count.textContent = number;
          const code = row.insertCell();
          code.className = css;
          code.append(...lines[k].cloneNode(true).childNodes);
        }
      }
    }
    button.closest("tbody").after(body);
    button.setAttribute("aria-controls", body.id);
    return body;
  }

  function setFold(button, expanded) {
    const body = document.getElementById(button.getAttribute("aria-controls")) ?? (expanded ? unfold(button) : null);
    if (body) body.hidden = !expanded;
    button.setAttribute("aria-expanded", expanded);
  }

  addEventListener("click", (event) => {
    const fold = event.target.closest(".fold button");
    if (fold) setFold(fold, fold.getAttribute("aria-expanded") !== "true");
    const tool = event.target.closest(".unfold");
    if (tool) {
      const expanded = tool.getAttribute("aria-pressed") !== "true";
      tool.setAttribute("aria-pressed", expanded);
      for (const button of all(".fold button", tool.closest("section"))) setFold(button, expanded);
    }
  });

  // --- Blame: the history of the result line under the pointer or with the focus.

  const result = $("#result"), original = $("#original"), story = $("#history");

  function tell(row) {
    for (const lit of all(".pointed")) lit.classList.remove("pointed");
    row.classList.add("pointed");
    const { step: name, original: from } = row.dataset;
    story.textContent = `Line ${row.id.slice(5)}: ${row.dataset.history}. `;
    if (name) story.append(anchor(`#step-${name}`, `Open ${name}`), " ");
    if (from) {
      story.append(anchor(`#original-${from}`, `Go to line ${from} of the original`));
      const source = document.getElementById(`original-${from}`);
      source.classList.add("pointed");
      original.scrollTop = source.offsetTop - original.clientHeight / 3;
    }
  }

  function anchor(href, text) {
    const a = document.createElement("a");
    a.href = href;
    a.textContent = text;
    return a;
  }

  function openStepOf(row) {
    const { step: name, line } = row.dataset;
    if (!name) return;
    go(`step-${name}`);
    for (const lit of all(".landed")) lit.classList.remove("landed");
    const cell = all(`#step-${name} .diff td.new`).find((td) => td.previousElementSibling.textContent === line);
    if (!cell) return;
    cell.parentElement.classList.add("landed");
    cell.scrollIntoView({ block: "center" });
  }

  const rowOf = (event) => event.target.closest("#result tbody tr");
  result.addEventListener("mouseover", (event) => { if (rowOf(event)) tell(rowOf(event)); });
  result.addEventListener("focusin", (event) => { if (rowOf(event)) tell(rowOf(event)); });
  result.addEventListener("click", (event) => {
    if (event.target.closest("td.n")) openStepOf(rowOf(event));
  });
  result.addEventListener("keydown", (event) => {
    const row = rowOf(event);
    if (!row) return;
    const next = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling,
      Home: row.parentElement.firstElementChild, End: row.parentElement.lastElementChild }[event.key];
    if (next) {
      event.preventDefault();
      row.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (event.key === "Enter" && event.target === row) {
      openStepOf(row);
    }
  });

  // --- Colours: those of the system, light, or dark.

  const theme = $("#theme");
  const themes = { "": "auto", light: "light", dark: "dark" };

  function paint(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    $("span", theme).textContent = themes[name];
  }

  theme.addEventListener("click", () => {
    const names = Object.keys(themes);
    paint(names[(names.indexOf(root.dataset.theme ?? "") + 1) % names.length]);
  });

  open();
})();
