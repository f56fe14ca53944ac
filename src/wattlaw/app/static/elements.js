// Small makers of elements. Text is always set as text: nothing that came from a file or an answer is read as markup.

export const byId = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// A table: columns are [heading, cell of a row, whether it is a number].
export function table(caption, columns, rows, { chosen = () => false } = {}) {
  const head = columns.map(([heading, , number]) => make("th", { scope: "col", class: number ? "n" : null }, heading));
  const body = rows.map((row) =>
    make("tr", { class: chosen(row) ? "chosen" : null },
      ...columns.map(([, cell, number]) => make("td", { class: number ? "n" : null }, cell(row) ?? ""))),
  );
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

export function folded(summary, ...content) {
  return make("details", {}, make("summary", {}, summary), ...content);
}

export function save(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
