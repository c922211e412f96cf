"""The explorer in a browser: from a question to its results in the page, compared with the API call alone.

Both sides run in the same tab and send the same request; the bare side parses the response and does nothing with it.
They alternate, after a round that warms both. The browser's cache is off, since each question would come from it the
second time.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from typing import Any, Final

from benchmarks.machine import cores
from benchmarks.parts.serving import free_questions
from benchmarks.rows import Row, Setting
from benchmarks.servers import ServerError, serving

PART: Final = "explorer"
QUESTIONS: Final = 100
TARGET: Final = 1.3
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
MEASURE: Final = """
const [questions, done] = arguments;
const counted = () => performance.getEntriesByType("resource").filter(e => e.name.includes("v1/facets")).length;
const until = async (test) => { while (!test()) await new Promise(resolve => setTimeout(resolve, 5)); };

async function page(q) {
  performance.clearMarks();
  performance.clearResourceTimings();
  const form = document.querySelector("form.search");
  form.elements.q.value = q;
  const start = performance.now();
  form.requestSubmit();
  await until(() => performance.getEntriesByName("search-ends").length);
  const end = performance.getEntriesByName("search-ends")[0].startTime;
  await until(counted);  // which come after the results
  return end - start;
}

async function bare(q) {
  const fields = "title,abstract,authors,year,venue,status,categories,citation_count";
  const start = performance.now();
  const response = await fetch("v1/search?" + new URLSearchParams({ q, limit: 10, explain: true, fields }));
  await response.json();
  return performance.now() - start;
}

(async () => {
  const found = { page: [], bare: [] };
  for (const round of [0, 1]) {
    for (const [place, q] of questions.entries()) {
      for (const side of place % 2 ? ["page", "bare"] : ["bare", "page"]) {
        const time = await (side === "page" ? page : bare)(q);
        if (round) found[side].push(time);
      }
    }
  }
  done(found);
})().catch(error => done(String(error)));
"""


def run(setting: Setting) -> list[Row]:
    """The row of the page's search."""
    texts = list(dict.fromkeys(free_questions(setting)))[:QUESTIONS]
    with serving(setting.library, workers=cores()) as server:
        found = measure(server.url, texts)
    here, floor = (statistics.median(found[side]) for side in ("page", "bare"))
    return [
        Row(
            PART,
            "a search in the explorer, from the question to the results in the page",
            "GET /v1/search from the same tab, its JSON parsed",
            here,
            floor,
            "ms",
            statistics.median(one / other for one, other in zip(found["page"], found["bare"], strict=True)),
            "at most",
            TARGET,
            {"questions": len(texts), "workers": cores()},
        )
    ]


def measure(url: str, questions: list[str]) -> dict[str, list[float]]:
    """The milliseconds of each question on both sides.

    Raises:
        ServerError: the browser is missing, or the page failed.
    """
    from selenium import webdriver

    binary, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if binary is None or driver is None:
        raise ServerError("The part explorer needs chromium and chromedriver: install both.")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    with tempfile.TemporaryDirectory() as profile:
        for argument in (
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        browser: Any = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(executable_path=driver)
        )
        try:
            browser.set_script_timeout(600)
            browser.execute_cdp_cmd("Network.enable", {})
            browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
            browser.get(url)
            found = browser.execute_async_script(MEASURE, questions)
        finally:
            browser.quit()
    if not isinstance(found, dict):
        raise ServerError(f"The explorer failed: {found}")
    return found
