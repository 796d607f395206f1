"""Markdown of agents as HTML that is safe to show.

Agents write whatever they read somewhere. Raw HTML in it is text, code is coloured by class (the
page's policy forbids inline styles), pictures become links since the page loads nothing from
elsewhere, and what comes out is sanitised once more by a parser that knows how browsers read HTML.

The parser's time grows faster than its text (ten seconds for 80 KB of `![`), so long texts stay plain,
and one thread does all of it: whatever is to be rendered, nothing else in the server waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

MAX_RENDERED = 50_000
"""Characters of a text that is rendered: a second's work at worst, for which a server that stops may wait."""

MAX_TOGETHER = 250_000
"""Characters that are rendered for one request; what goes beyond is shown plain."""

_TAGS = frozenset(
    {
        *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
        *("pre", "code", "span", "em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
    }
)
_ATTRIBUTES = {"a": {"href", "title", "target"}, "code": {"class"}, "span": {"class"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}


class Renderer:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-markdown")

    async def render(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The HTML of Markdown texts, in the same order; of long ones, their plain text."""
        loop = asyncio.get_running_loop()
        left = MAX_TOGETHER
        jobs = []
        for text in texts:
            fits = len(text) <= min(left, MAX_RENDERED)
            left -= len(text) if fits else 0
            # Each is work of its own, so that texts of several callers take turns.
            jobs.append(loop.run_in_executor(self._thread, rendered_html if fits else plain_html, text))
        return tuple(await asyncio.gather(*jobs))

    def close(self) -> None:
        """Begin nothing more, and wait for nothing."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def plain_html(text: str) -> str:
    """The HTML that shows a text as it is."""
    return f"<pre>{escapeHtml(text)}</pre>\n"


def rendered_html(text: str) -> str:
    """The HTML of a Markdown text."""
    return nh3.clean(
        _parser().render(text),
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer",
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "highlight": _highlighted})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _picture_as_link)
    parser.add_render_rule("link_open", _link_elsewhere)
    return parser


def _highlighted(code: str, language: str, _: str) -> str:
    """Code with a class for each kind of token; nothing when the language is not known."""
    if not language:
        return ""
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return ""
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def _picture_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    picture = tokens[index]
    address = str(picture.attrGet("src") or "")
    name = renderer.renderInlineAsText(picture.children or [], options, env) or address
    return f'<a href="{escapeHtml(address)}" target="_blank">{escapeHtml(name)}</a>'


def _link_elsewhere(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, env)
