// The table of runs: sorted by a column, and filtered; drawings and curves follow the filter. Below
// it, the keys of the chosen runs that differ.

const compared = document.querySelector(".compared");
if (compared) {
  const body = compared.tBodies[0], heads = [...compared.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), {type: "button", textContent: head.textContent});
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(body, heads, column));
  });
  body.addEventListener("change", () => showDifferences([...body.querySelectorAll(".chosen:checked")].map(box => box.closest("tr"))));
  const filter = document.querySelector(".filter"), count = document.querySelector(".count");
  filter.addEventListener("input", () => {
    const rows = [...body.rows];
    const terms = filter.value.trim().split(/\s+/).filter(Boolean);
    const kept = new Set(rows.filter(row => terms.every(term => holds(row, heads, term))).map(row => row.dataset.point));
    for (const one of document.querySelectorAll("[data-point]")) one.classList.toggle("out", !kept.has(one.dataset.point));
    count.textContent = terms.length ? `${kept.size} of ${rows.length} runs` : "";
    const shown = new Set(rows.filter(row => kept.has(row.dataset.point)).map(row => row.querySelector(".key")?.dataset.run));
    for (const run of new Set(rows.map(row => row.querySelector(".key")?.dataset.run))) if (run != null) showCurve(Number(run), shown.has(run));
  });
}

function showDifferences(rows) {
  const box = document.querySelector(".differences .scroll"), note = document.querySelector(".differences .note");
  const valuesOf = key => rows.map(row => settings[key][row.dataset.point]);
  const keys = Object.keys(settings).filter(key => new Set(valuesOf(key)).size > 1);
  box.hidden = !keys.length;
  note.textContent = rows.length < 2 ? "Tick two or more runs of the table." : keys.length ? "" : "Nothing that is recorded of them differs.";
  const line = (texts, tag) => {
    const row = document.createElement("tr");
    row.append(...texts.map((text, place) => Object.assign(document.createElement(place ? tag : "th"), {textContent: text})));
    for (const head of row.querySelectorAll("th")) head.scope = tag === "th" ? "col" : "row";
    return row;
  };
  const names = rows.map(row => row.querySelector("bdi").textContent);
  box.firstElementChild.replaceChildren(line(["Key", ...names], "th"), ...keys.map(key => line([key, ...valuesOf(key)], "td")));
}

function cellValue(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const value = text === "" ? NaN : Number(text);
  return Number.isNaN(value) ? text : value;
}

// Numbers before texts, and what is unknown last, whichever way it is sorted.
function sortBy(body, heads, column) {
  const up = heads[column].getAttribute("aria-sort") !== "ascending";
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  const kind = value => value === "" ? 2 : typeof value === "number" ? 0 : 1;
  const rows = [...body.rows].map(row => [cellValue(row.cells[column]), row]);
  rows.sort(([a], [b]) => kind(a) - kind(b) || (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
  body.append(...rows.map(([, row]) => row));
}

// A word is somewhere in the row; `lr<1e-3` compares the column whose name ends like that.
function holds(row, heads, term) {
  const found = /^(.+?)(<=|>=|<|>|=)(.+)$/.exec(term);
  const column = found ? heads.findIndex(head => named(head.textContent, found[1])) : -1;
  if (column < 0) return row.textContent.toLowerCase().includes(term.toLowerCase());
  const value = cellValue(row.cells[column]), limit = Number(found[3]);
  if (typeof value !== "number" || Number.isNaN(limit)) return found[2] === "=" && String(value).toLowerCase() === found[3].toLowerCase();
  return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit, "=": value === limit}[found[2]];
}

function named(title, name) {
  const own = title.toLowerCase().replaceAll(" ", "_");
  return own === name.toLowerCase() || own.endsWith(`.${name.toLowerCase()}`);
}
