// What a page offers besides figures: tables as CSV, text for a ticket, filters, and long tables cut short.
"use strict";
function headraceTools() {
  const AT_FIRST = 12;
  // Numbers as programs read them: no narrow spaces between thousands, a plain minus.
  const plain = (text) => text.replace(/(\d)\u202f(?=\d{3}(\D|$))/g, "$1").replace(/[\u202f\u00a0]/g, " ").replace(/\u2212/g, "-").replace(/\s+/g, " ").trim();
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const shown = (row) => !row.closest("[hidden]") && !row.hasAttribute("data-filtered");

  function cellText(cell) {
    const copy = cell.cloneNode(true);
    for (const extra of copy.querySelectorAll(".mark, .interval, .bar, .sign, details ul, input")) extra.remove();
    for (const part of copy.querySelectorAll("details, details ~ .small")) {
      const [title, ...more] = [...part.children].map((each) => plain(each.textContent));
      part.replaceWith(`; ${more.length ? `${title}: ${more.join(" ")}` : plain(part.textContent)}`);
    }
    return plain(copy.textContent).replace(/^; /, "").replaceAll(" ;", ";");
  }
  const intervalText = (cell) => plain([...cell.querySelectorAll(".interval")].map((each) => each.textContent).join("; "));

  function csvOf(table) {
    const heads = [...table.querySelectorAll("thead tr:last-child th")].map((head) => {
      const unit = head.querySelector("small")?.textContent ?? "";
      const copy = head.cloneNode(true);
      copy.querySelector("small")?.remove();
      return plain(copy.textContent) + (unit ? ` (${plain(unit)})` : "");
    });
    const rows = [];
    let group = "";
    for (const row of table.querySelectorAll("tbody tr")) {
      if (!shown(row)) continue;
      if (row.classList.contains("group")) {
        group = cellText(row.cells[0]);
        continue;
      }
      const cells = [...row.cells].flatMap((cell) => [cell, ...new Array(cell.colSpan - 1).fill(null)]);
      rows.push([group, cells]);
    }
    const grouped = rows.some(([name]) => name);
    const wide = heads.map((_, at) => rows.some(([, cells]) => cells[at]?.querySelector(".interval")));
    // What is below a value is its interval, or words about it.
    const notes = heads.map((_, at) => rows.every(([, cells]) => !cells[at]?.querySelector(".interval:not(.wrap)")));
    // Boxes to tick are a control of the page.
    const ticked = table.querySelector("td.tick")?.cellIndex ?? -1;
    const columns = heads.map((_, at) => at).filter((at) => at !== ticked);
    const line = (first, one, two) => [...(grouped ? [first] : []), ...columns.flatMap((at) => (wide[at] ? [one(at), two(at)] : [one(at)]))];
    const lines = [line("Storage", (at) => heads[at], (at) => `${heads[at]}, ${notes[at] ? "note" : "interval"}`)];
    for (const [name, cells] of rows) {
      lines.push(line(name, (at) => (cells[at] ? cellText(cells[at]) : ""), (at) => (cells[at] ? intervalText(cells[at]) : "")));
    }
    return lines.map((each) => each.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  function offerCsv() {
    document.querySelectorAll(".scroll > table").forEach((table, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "csv";
      button.textContent = "CSV";
      const title = table.parentElement.getAttribute("aria-label") || "table";
      button.setAttribute("aria-label", `Download as CSV: ${title}`);
      button.addEventListener("click", () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob(["\ufeff", csvOf(table)], { type: "text/csv" }));
        link.download = `headrace-${number + 1}-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60)}.csv`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      });
      table.parentElement.before(button);
    });
  }

  // Tables of more rows than a reader takes in begin with a few; a button shows the others.
  const cut = new Map();
  function shorten() {
    for (const table of document.querySelectorAll(".scroll > table")) {
      const rows = [...table.querySelectorAll("tbody tr:not(.group)")].filter(shown);
      const long = rows.length > AT_FIRST * 1.5;
      let state = cut.get(table);
      if (!state && long) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "more";
        state = { button, whole: false };
        button.addEventListener("click", () => {
          state.whole = !state.whole;
          shorten();
        });
        table.parentElement.after(button);
        cut.set(table, state);
      }
      if (!state) continue;
      for (const row of table.querySelectorAll("tr[data-cut]")) row.removeAttribute("data-cut");
      state.button.hidden = !long;
      state.button.setAttribute("aria-expanded", String(state.whole));
      state.button.textContent = state.whole ? "Show fewer rows" : `Show all ${rows.length} rows`;
      if (!long || state.whole) continue;
      for (const row of rows.slice(AT_FIRST)) row.setAttribute("data-cut", "");
      for (const body of table.tBodies) {
        const head = body.querySelector("tr.group");
        const left = [...body.querySelectorAll("tr:not(.group)")].some((row) => shown(row) && !row.hasAttribute("data-cut"));
        if (head && !left) head.setAttribute("data-cut", "");
      }
    }
  }
  // A link to a row that is cut off shows the whole table first.
  function reveal() {
    const row = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    const state = cut.get(row?.closest("table"));
    if (!state || !row.hasAttribute("data-cut")) return;
    state.whole = true;
    shorten();
    row.scrollIntoView();
  }
  addEventListener("hashchange", reveal);

  function offerTicket() {
    const button = document.getElementById("copy-ticket");
    if (!button) return;
    const ticket = document.getElementById("ticket");
    button.hidden = false;
    button.addEventListener("click", async () => {
      const said = document.getElementById("copied");
      try {
        await navigator.clipboard.writeText(ticket.textContent);
        said.textContent = "Copied.";
      } catch {
        // Some browsers give a page that is a file no clipboard: the text is selected instead.
        ticket.closest("details").open = true;
        getSelection().selectAllChildren(ticket);
        ticket.focus();
        said.textContent = "The text below is selected: copy it with Ctrl-C.";
      }
    });
  }

  // Which curves the tables show: by level of a factor, and by words of their names.
  function filter(curves, redraw) {
    const box = document.querySelector(".filters");
    if (!box) return { shows: () => true };
    const pickers = [...box.querySelectorAll("select[data-filter]")];
    const text = document.getElementById("filter-text");
    const shows = (index) => {
      const curve = curves[index];
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      return words.every((word) => curve.label.toLowerCase().includes(word))
        && pickers.every((picker) => !picker.value || curve.levels[picker.dataset.filter] === picker.value);
    };
    const apply = () => {
      redraw();
      const left = curves.filter((_, index) => shows(index)).length;
      document.getElementById("filter-count").textContent = `${left} of ${curves.length} storages`;
    };
    box.hidden = false;
    for (const picker of pickers) picker.addEventListener("change", apply);
    text.addEventListener("input", apply);
    document.getElementById("filter-clear").addEventListener("click", () => {
      for (const picker of pickers) picker.value = "";
      text.value = "";
      apply();
    });
    return { shows };
  }

  offerCsv();
  offerTicket();
  return { filter, shorten };
}
