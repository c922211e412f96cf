"""A tab of a real browser with the explorer."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 120


class Page:
    """A tab with the explorer of one server."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url
        self.requests: list[str] = []
        self.bytes = 0
        self._read_log()
        self.requests, self.bytes = [], 0
        driver.get_log("browser")

    def open(self, address: str = "", *, shows: str) -> None:
        """Load the page anew, and wait for an element."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{address}")
        self.wait(shows)

    def wait(self, css: str, text: str = "") -> Any:
        """The first element that matches and contains a text, once it is there."""

        def found(driver: Any) -> Any:
            return driver.execute_script(
                "return [...document.querySelectorAll(arguments[0])].find(e => e.textContent.includes(arguments[1]))",
                css,
                text,
            )

        return WebDriverWait(self.driver, SECONDS).until(found)

    def all(self, css: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, css))

    def texts(self, css: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return list(self.driver.execute_script(script, css))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def _read_log(self) -> None:
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message["method"] == "Network.loadingFinished":
                self.bytes += int(message["params"]["encodedDataLength"])

    def check(self) -> None:
        """No error in the console, no request to another host, no barrier, and nothing beyond the right edge."""
        self.check_loaded()
        self.check_barriers()

    def check_loaded(self) -> None:
        """No error in the console, no request to another host, and nothing beyond the right edge."""
        assert self.driver.get_log("browser") == []
        self._read_log()
        own = urlsplit(self.url).netloc
        others = {one for one in self.requests if urlsplit(one).scheme in ("http", "https", "ws", "wss")}
        assert {urlsplit(one).netloc for one in others} <= {own}
        assert self.run("document.documentElement.scrollWidth <= window.innerWidth")

    def check_barriers(self, *rules: str) -> None:
        """No barrier by these rules of axe-core, by default all."""
        if (axe := axe_script()) is None:
            return
        if not self.run("Boolean(window.axe)"):
            self.driver.execute_script(axe)
        found = self.driver.execute_async_script(
            "const done = arguments[1];"
            "axe.run(arguments[0]).then(r => done(r.violations), e => done([{id: String(e)}]))",
            {"runOnly": list(rules)} if rules else {},
        )
        assert [(one["id"], one["impact"], [n["html"] for n in one["nodes"]][:3]) for one in found] == []


def axe_script() -> str | None:
    """axe-core of AXE_MIN_JS or of the package axe-core-python, None without both."""
    if (path := os.environ.get("AXE_MIN_JS")) is not None:
        return Path(path).read_text()
    spec = find_spec("axe_core_python")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return (Path(folders[0]) / "axe.min.js").read_text() if folders else None
