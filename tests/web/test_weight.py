"""What the page costs to load, and what it may do once it is there."""

from pathlib import Path

from playwright.async_api import Page, expect

import holdfast.server
from benchmarks.page import WEIGHT
from tests.web.visitors import Visitor

ASSETS = Path(holdfast.server.__file__).parent / "web"

LARGEST = 150_000
"""Bytes of the whole page, as they go over the line."""


async def test_the_page_is_light(page: Page) -> None:
    await expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
    sent, _ = await page.evaluate(WEIGHT)
    assert 0 < sent <= LARGEST


async def test_the_policy_forbids_scripts_and_styles_of_others(visitor: Visitor, page: Page) -> None:
    answer = await page.request.get(visitor.served.url)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy


def test_there_is_no_build_step_and_no_script_of_others() -> None:
    assert {path.suffix for path in (ASSETS / "assets").iterdir()} <= {".js", ".css", ".svg"}
    for path in filter(Path.is_file, ASSETS.rglob("*")):
        text = path.read_text().replace("http://www.w3.org/", "")  # the names of XML vocabularies
        assert "http://" not in text
        assert "https://" not in text
