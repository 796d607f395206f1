"""Markdown of agents as HTML that is safe to show.

Agents write whatever they read somewhere. Raw HTML in it is text, code is coloured by class (the
page's policy forbids inline styles), pictures become links since the page loads nothing from
elsewhere, and what comes out is sanitised once more by a parser that knows how browsers read HTML.
Links lead elsewhere: a path is one of the agent's repository, and nothing that this server serves.

The parser's time grows faster than its text (ten seconds for 80 KB of `![`). So texts that are long or take
long stay plain, one thread does all of it, and callers take turns: nobody waits for what somebody else sent.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.ruler import RuleOptionsType, StateBase
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from holdfast.model.principal import Principal

MAX_RENDERED = 50_000
"""Characters of a text that is rendered."""

MAX_TOGETHER = 250_000
"""Characters that are rendered for one request; what goes beyond is shown plain."""

TEXT_SECONDS, REQUEST_SECONDS = 0.5, 1.0
"""How long the processor may work on a text, and on those of a request. What takes longer is shown plain."""

_TAGS = frozenset(
    {
        *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
        *("pre", "code", "span", "em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
    }
)
_ATTRIBUTES = {"a": {"href", "title", "target"}, "code": {"class"}, "span": {"class"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}
_ELSEWHERE = re.compile(rf"({'|'.join(sorted(_SCHEMES))}):", re.IGNORECASE)
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


class TookTooLong(Exception):
    """Ends the parser's work on a text."""


class _Allowance:
    """How long the texts of one request may be, and how long they may take."""

    def __init__(self) -> None:
        self.characters = MAX_TOGETHER
        self.seconds = REQUEST_SECONDS

    def html_of(self, text: str) -> str:
        if len(text) > min(self.characters, MAX_RENDERED) or self.seconds <= 0:
            return plain_html(text)
        self.characters -= len(text)
        begun = time.thread_time()
        try:
            return rendered_html(text, until=begun + min(self.seconds, TEXT_SECONDS))
        except TookTooLong:
            return plain_html(text)
        finally:
            self.seconds -= time.thread_time() - begun


class Renderer:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-markdown")
        self._waiting: dict[Principal, deque[tuple[asyncio.Future[str], _Allowance, str]]] = {}
        """The texts of each caller. The callers take turns, a text each."""
        self._working: asyncio.Task[None] | None = None

    async def render(self, texts: Sequence[str], caller: Principal) -> tuple[str, ...]:
        """The HTML of Markdown texts, in the same order; of those that take too long, their plain text."""
        loop = asyncio.get_running_loop()
        allowance = _Allowance()
        futures = [loop.create_future() for _ in texts]
        line = self._waiting.setdefault(caller, deque())
        line.extend((future, allowance, text) for future, text in zip(futures, texts, strict=True))
        if self._working is None:
            self._working = loop.create_task(self._work(), name="holdfast-markdown")
        return tuple(await asyncio.gather(*futures))

    def close(self) -> None:
        """Begin nothing more, and wait for nothing."""
        if self._working is not None:
            self._working.cancel()
        for line in self._waiting.values():
            for future, _, _ in line:
                future.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            caller = next(iter(self._waiting))
            line = self._waiting.pop(caller)
            if line:
                future, allowance, text = line.popleft()
                self._waiting[caller] = line
                if not future.cancelled():
                    html = await loop.run_in_executor(self._thread, allowance.html_of, text)
                    if not future.cancelled():
                        future.set_result(html)
        self._working = None


def plain_html(text: str) -> str:
    """The HTML that shows a text as it is."""
    return f"<pre>{escapeHtml(text)}</pre>\n"


def rendered_html(text: str, *, until: float = math.inf) -> str:
    """The HTML of a Markdown text. Raises `TookTooLong` when this thread has worked until then."""
    return nh3.clean(
        _parser().render(text, {"until": until}),
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer",
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "linkify": True, "highlight": _highlighted}
    parser = MarkdownIt("commonmark", options)
    parser.enable(["table", "strikethrough", "linkify"])
    assert parser.linkify is not None
    # Only what says its scheme is an address: `app.py` could be a host of Paraguay.
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    for scheme in ("ftp:", "//"):
        parser.linkify.add(scheme, None)
    everywhere: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
    parser.block.ruler.before("table", "time", _check_block, everywhere)
    parser.inline.ruler.before("text", "time", _check_inline)
    parser.core.ruler.push("boxes", _tick_boxes)
    parser.core.ruler.push("paths", _show_paths)
    parser.add_render_rule("image", _picture_as_link)
    parser.add_render_rule("link_open", _link_elsewhere)
    return parser


def _check_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule that fits nothing, and is asked at every step."""
    return _check_inline(state, silent)


def _check_inline(state: StateBase, silent: bool) -> bool:
    if time.thread_time() > state.env["until"]:
        raise TookTooLong
    return False


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
    if not _ELSEWHERE.match(address):
        named = [Token("text", "", 0, content=name)]
        return renderer.renderInline(list(_named_path(named, address)), options, env)
    return f'<a href="{escapeHtml(address)}" target="_blank">{escapeHtml(name)}</a>'


def _link_elsewhere(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, env)


def _tick_boxes(state: StateCore) -> None:
    """The items of a list that begin with a box, ticked or not."""
    for opened, _, said in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if opened.type == "list_item_open" and said.children:
            first = said.children[0]
            if first.type == "text" and (box := _BOXES.get(first.content[:4])):
                first.content = box + first.content[4:]


def _show_paths(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = list(_with_paths(token.children))


def _with_paths(tokens: Sequence[Token]) -> Iterator[Token]:
    """What was said, with the path in place of a link to one."""
    path: str | None = None
    name: list[Token] = []
    for token in tokens:
        if token.type == "link_open" and not _ELSEWHERE.match(address := str(token.attrGet("href"))):
            path, name = address, []
        elif path is None:
            yield token
        elif token.type == "link_close":
            yield from _named_path(name, path)
            path = None
        else:
            name.append(token)


def _named_path(name: Sequence[Token], address: str) -> Iterator[Token]:
    """A path of the repository as code, after its name where that is another."""
    path = unquote(address)
    if "".join(token.content for token in name) != path:
        yield from name
        yield Token("text", "", 0, content=" ")
    yield Token("code_inline", "code", 0, content=path)
