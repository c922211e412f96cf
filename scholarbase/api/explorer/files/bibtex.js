// Bibliographies in BibTeX: reading and replacing the fields of an entry, without a change to anything else.

// Where the value of a field is in an entry, with its braces or quotation marks; null if the entry lacks it.
function place(entry, name) {
  let depth = 0, start = null;
  for (let at = entry.indexOf("{") + 1; at < entry.length && at > 0; at++) {
    const letter = entry[at];
    if (letter === "\\") at += 1;
    else if (letter === "{") depth += 1;
    else if (letter === '"' && depth === 0 && start !== null) {
      for (at += 1; at < entry.length && (entry[at] !== '"' || depth > 0); at++) {
        if (entry[at] === "\\") at += 1;
        else depth += entry[at] === "{" ? 1 : entry[at] === "}" ? -1 : 0;
      }
    } else if (start !== null && depth === 0 && /[,}]/.test(letter)) return [start, at - /\s*$/.exec(entry.slice(start, at))[0].length];
    else if (letter === "}") depth -= 1;
    else if (start === null && depth === 0 && /[,\s]/.test(letter)) {
      const found = new RegExp(`^\\s*${name}\\s*=\\s*`, "i").exec(entry.slice(at + 1));
      if (found) {
        start = at + 1 + found[0].length;
        at = start - 1;
      }
    }
  }
  return null;
}

export function fieldOf(entry, name) {
  const found = place(entry, name);
  return found && entry.slice(...found);
}

// The entry with another value of a field, which is added after the key if the entry lacks it.
export function withField(entry, name, value) {
  const found = place(entry, name);
  if (found) return entry.slice(0, found[0]) + value + entry.slice(found[1]);
  const key = entry.indexOf(",") + 1;
  return key ? `${entry.slice(0, key)}\n  ${name} = ${value},${entry.slice(key)}` : entry;
}

// The entries of a file that the server has written.
export const entriesOf = (text) => text.split(/\n(?=@)/).map((one) => one.trim()).filter(Boolean);
