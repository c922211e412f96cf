// Elements from data. Texts become text nodes only, so markup in them is shown and never run.

const SVG = "http://www.w3.org/2000/svg";

const isShown = (value) => value !== null && value !== undefined && value !== false;

function fill(element, properties, children) {
  for (const name in properties) {
    const value = properties[name];
    if (!isShown(value)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return add(element, ...children);
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isShown));
  return element;
}

export function add(element, ...children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, ...child);
    else if (isShown(child)) element.append(child);
  }
  return element;
}

// Lets the browser do what waits, such as showing what was drawn.
export const pause = () => new Promise((resolve) => { setTimeout(resolve); });

const format = new Intl.NumberFormat("en").format;
export const number = (value) => (value === null || value === undefined ? "unknown" : format(value));
export const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;

// Parameters of an address. Empty values are left out, and lists are repeated.
export function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) found.append(name, one);
    }
  }
  return found.toString();
}

// The snapshot that the address of the page names, null for the server's current one. Links and requests keep it.
export let pinned = null;
export function pin(snapshot) {
  pinned = snapshot || null;
}

// Whether the page shows how results were found: modes and engines, and what each leg adds. Links keep it.
export let explaining = false;
export function explain(on) {
  explaining = on;
}

// A view's address: #/paper?id=...
export function link(view, values = {}) {
  const text = query({ ...values, snapshot: "snapshot" in values ? values.snapshot : pinned, explain: explaining && "1" });
  return `#/${view}${text ? "?" + text : ""}`;
}

// Goes to a view. Its request is sent first, and the history gets its entry later: the browser takes milliseconds for
// one, in which it starts nothing else.
export function go(address) {
  clearTimeout(timer);
  entry = address;
  timer = setTimeout(enter, 300);
  window.dispatchEvent(new CustomEvent("go", { detail: address }));
}

let timer = 0, entry = null;

function enter() {
  clearTimeout(timer);
  if (entry !== null && location.hash !== entry) history.pushState(null, "", entry);
  entry = null;
}

window.addEventListener("click", enter, true); // before a link is followed
window.addEventListener("hashchange", () => { entry = null; }); // the browser went elsewhere meanwhile

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function notice(text, kind = "") {
  return h("p", { class: `notice ${kind}`, role: kind === "error" ? "alert" : null }, text);
}

// A labelled select: options are values, or pairs of a value and its text.
export function choice(label, name, options, chosen) {
  return h("label", { class: "field" }, label, h("select", { name }, options.map((one) => {
    const [value, text] = Array.isArray(one) ? one : [one, one];
    return h("option", { value, selected: value === (chosen ?? "") }, text);
  })));
}

export function field(label, name, value, properties = {}) {
  return h("label", { class: "field" }, label, h("input", { name, value: value ?? "", ...properties }));
}

const LEAST = 4; // letters that two forms of a word have in common
const LETTER = /[\p{L}\p{N}]/u, LETTERS = /[\p{L}\p{N}]*/uy;

// The text with the words marked that a query shares with it. Words are compared by their beginnings, as endings differ.
export function highlighted(text, terms) {
  if (!terms.length || !text) return [text ?? ""];
  const parts = [];
  let last = 0;
  for (const { 0: begin, index } of text.matchAll(beginsOf(terms))) {
    if (index < last || (LETTER.test(begin[0]) && LETTER.test(text[index - 1] ?? ""))) continue;
    LETTERS.lastIndex = index + begin.length;
    const word = terms.includes(begin.toLowerCase()) && !LETTER.test(begin.at(-1)) ? begin : begin + LETTERS.exec(text)[0];
    if (!terms.some((term) => isForm(word.toLowerCase(), term))) continue;
    parts.push(text.slice(last, index), h("mark", null, word));
    last = index + word.length;
  }
  return [...parts, text.slice(last)];
}

let marked = { terms: null, begins: null };

// How words that are marked begin. The texts of a page have the same terms.
function beginsOf(terms) {
  if (marked.terms !== terms) {
    const begins = terms.map((term) => (/[^\p{L}\p{N}]/u.test(term) ? term : term.slice(0, LEAST)).replace(/[$()*+.?[\]\\^{|}/]/g, "\\$&"));
    marked = { terms, begins: new RegExp(begins.join("|"), "giu") };
  }
  return marked.begins;
}

function isForm(word, term) {
  if (word === term) return true;
  const least = Math.max(LEAST, Math.min(word.length, term.length) - 2);
  return word.length >= least && term.length >= least && Math.abs(word.length - term.length) <= 4
    && word.slice(0, least) === term.slice(0, least);
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Copies the text of an area, also where the page has no permission for the clipboard: it is then selected.
export async function copy(area) {
  try {
    await navigator.clipboard.writeText(area.value);
    say("Copied.");
    return true;
  } catch {
    area.focus();
    area.select();
    say("Selected: copy it with the keyboard.");
    return false;
  }
}

// A button that copies a text, which is shown below it where the clipboard cannot be written.
export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "plain", onclick: async () => {
    const area = h("textarea", { readonly: true, rows: 8, "aria-label": label });
    try {
      area.value = await text();
    } catch (error) {
      say(error.message);
      button.textContent = error.message;
      return;
    }
    button.parentElement.parentElement.querySelector(":scope > textarea")?.remove();
    button.parentElement.after(area);
    if (!await copy(area)) return;
    area.remove();
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 2000);
  } }, label);
  return button;
}
