// Requests to the server of this page. A key is kept here, in memory only.

import { pinned, query } from "./dom.js";

let key = null;
let asking = null;

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const address = (path, values = {}) => {
  const text = query(values);
  return text ? `${path}?${text}` : path;
};

export const paperPath = (id) => `v1/papers/${encodeURIComponent(id)}`;
export const sessionPath = (name) => `v1/sessions/${encodeURIComponent(name)}`;
export const hasKey = () => key !== null;

// The response to a request, from the snapshot of the address or of the options. Relative addresses, so that the page also works below a path of another server.
async function send(url, options = {}) {
  const headers = { ...(options.headers ?? {}) };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const snapshot = "snapshot" in options ? options.snapshot : pinned;
  if (snapshot) headers["X-ScholarBase-Snapshot"] = snapshot;
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(url, { ...options, headers });
  if (response.status === 401) {
    const problem = await problemOf(response);
    if (await askForKey(key ? problem.message : "")) return send(url, options);
    throw problem;
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  let detail = `The server responded ${response.status}.`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch { /* not a problem document */ }
  return new Problem(response.status, detail);
}

// Asks once for all requests that wait for a key; false if the dialog is cancelled.
function askForKey(problem) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key");
    const value = document.getElementById("key-value");
    document.getElementById("key-problem").textContent = problem;
    value.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const used = dialog.returnValue === "use" && value.value.trim();
      if (used) key = value.value.trim();
      value.value = "";
      asking = null;
      resolve(Boolean(used));
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

export async function get(path, values = {}, options = {}) {
  return (await send(address(path, values), options)).json();
}

export async function text(path, values = {}, options = {}) {
  return (await send(address(path, values), options)).text();
}

const sendBody = (path, body, options = {}) => send(path, { ...options, method: "POST",
  body: body === undefined ? undefined : JSON.stringify(body) });

export async function post(path, body, options = {}) {
  return (await sendBody(path, body, options)).json();
}

export async function postForText(path, body) {
  return (await sendBody(path, body)).text();
}

export async function image(path) {
  return (await send(path)).blob();
}

// The snapshots that the server has open, the current one first.
export const snapshots = async () => (await get("v1/snapshots", {}, { snapshot: null })).results;
