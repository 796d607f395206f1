"""What people read: Markdown that cannot do harm, sessions as documents, new repositories."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from holdfast import Message, NewSession, Session, Store
from holdfast.compaction.plan import Fold, Plan, Replacement
from holdfast.model.ids import CompactionId
from holdfast.model.records import NewCompaction
from holdfast.server import shapes
from tests.server.servers import Organization, Served, decoded, owner_of, problem


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](javascript:alert(1))",
        '<a href="https://e.org" onclick="alert(1)">x</a>',
        "```html\n<style>*{display:none}</style>\n```",
        '[x](https://e.org"onmouseover=alert(1))',
    ],
)
async def test_what_is_hostile_in_markdown_is_only_text(org: Organization, hostile: str) -> None:
    answer = await org.ada.post("/api/markdown", {"texts": [hostile]})
    (html,) = decoded(answer, shapes.RenderedTexts).html
    for tag in ("<script", "<img", "<style", 'href="javascript', "<a onclick"):
        assert tag not in html
    assert 'onmouseover="' not in html


async def test_markdown_is_rendered_in_order_with_coloured_code(org: Organization) -> None:
    answer = await org.ada.post("/api/markdown", {"texts": ["**a**", "```python\nreturn 1\n```"]})
    first, second = decoded(answer, shapes.RenderedTexts).html
    assert first == "<p><strong>a</strong></p>\n"
    assert '<span class="k">return</span>' in second


async def test_a_picture_is_a_link_so_that_nothing_is_loaded_from_elsewhere(org: Organization) -> None:
    answer = await org.ada.post("/api/markdown", {"texts": ["![chart](https://e.org/chart.png)"]})
    (html,) = decoded(answer, shapes.RenderedTexts).html
    assert '<a href="https://e.org/chart.png"' in html
    assert "<img" not in html


async def test_a_long_text_stays_plain_and_only_that(org: Organization) -> None:
    texts = ["![<" * 40_000, "**a**"]
    plain, short = decoded(await org.ada.post("/api/markdown", {"texts": texts}), shapes.RenderedTexts).html
    assert plain == "<pre>" + "![&lt;" * 40_000 + "</pre>\n"
    assert short == "<p><strong>a</strong></p>\n"


async def test_of_many_long_texts_the_last_stay_plain(org: Organization) -> None:
    texts = ["plain\n" * 8000] * 6 + ["**b**"]
    html = decoded(await org.ada.post("/api/markdown", {"texts": texts}), shapes.RenderedTexts).html
    assert ["<pre>" in each for each in html] == [False] * 5 + [True, False]


async def test_nobody_else_waits_while_markdown_is_rendered(org: Organization, session: Session) -> None:
    slow = {"texts": ["![" * 24_000] * 5}
    async with org.ada.client() as client, asyncio.TaskGroup() as group:
        more_than_there_are_threads = 33
        rendering = [
            group.create_task(client.post("/api/markdown", json=slow))
            for _ in range(more_than_there_are_threads)
        ]
        for path in ("/api/questions", f"/api/sessions/{session.id}") * 5:
            assert (await org.ada.get(path)).is_success
        assert not all(each.done() for each in rendering)
        for each in rendering:
            each.cancel()


@pytest.mark.req("SEC-19")
async def test_a_text_that_takes_long_stays_plain_and_callers_take_turns(org: Organization) -> None:
    slow = {"texts": ["![" * 24_000, "**a**"]}
    async with org.ada.client() as ada, asyncio.TaskGroup() as group:
        asked = [group.create_task(ada.post("/api/markdown", json=slow)) for _ in range(20)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        plain, short = decoded(done.pop().result(), shapes.RenderedTexts).html
        assert (plain[:10], short) == ("<pre>![![!", "<p><strong>a</strong></p>\n")
        answer = await org.bob.post("/api/markdown", {"texts": ["**b**"]})
        assert decoded(answer, shapes.RenderedTexts).html == ("<p><strong>b</strong></p>\n",)
        assert not all(each.done() for each in asked)
        for each in asked:
            each.cancel()


@pytest.mark.usefixtures("process")
async def test_what_is_not_rendered_when_the_server_stops_is_refused(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    slow = {"texts": ["![" * 24_000]}
    async with owner_of(served).client() as client:
        asked = [asyncio.ensure_future(client.post("/api/markdown", json=slow)) for _ in range(33)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert await asyncio.to_thread(served.stop) == 0
        # In whichever order the server met them; one that it had not read yet has no answer.
        ends = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in ends if isinstance(each, httpx2.Response) and not each.is_success]
    assert {problem(each)["code"] for each in refused} == {"closing"}
    assert "Traceback" not in served.complaints()


async def test_addresses_are_links_and_paths_of_the_repository_are_not(org: Organization) -> None:
    texts = [
        "See https://e.org/a, in app.py.",
        "[app](src/app.py)",
        "[a b.py](<a b.py>)",
        "![plan](plan.png)",
    ]
    answer = await org.ada.post("/api/markdown", {"texts": texts})
    bare, named, same, picture = decoded(answer, shapes.RenderedTexts).html
    assert '<a href="https://e.org/a"' in bare
    assert bare.endswith("</a>, in app.py.</p>\n")
    assert named == "<p>app <code>src/app.py</code></p>\n"
    assert same == "<p><code>a b.py</code></p>\n"
    assert picture == "<p>plan <code>plan.png</code></p>\n"


async def test_the_boxes_of_a_task_list_are_ticked_or_not(org: Organization) -> None:
    answer = await org.ada.post("/api/markdown", {"texts": ["- [ ] write\n- [x] read"]})
    (html,) = decoded(answer, shapes.RenderedTexts).html
    assert "<li>☐ write</li>" in html
    assert "<li>☑ read</li>" in html


async def test_a_session_is_exported_as_a_document(org: Organization, store: Store, session: Session) -> None:
    await store.as_system().append_messages(session.id, [Message.user("hello"), Message.agent("hi there")])
    markdown = await org.ada.get(f"/api/sessions/{session.id}/export")
    assert "attachment" in markdown.headers["content-disposition"]
    assert "hi there" in markdown.text
    whole = await org.ada.get(f"/api/sessions/{session.id}/export", params={"format": "json"})
    assert [message["content"]["text"] for message in whole.json()["messages"]] == ["hello", "hi there"]


async def test_another_user_gets_neither_document_nor_folds(org: Organization, session: Session) -> None:
    for part in ("export", "compactions"):
        assert problem(await org.bob.get(f"/api/sessions/{session.id}/{part}"))["status"] == 404


async def test_the_folds_of_a_session_are_listed(org: Organization, store: Store) -> None:
    view = store.as_principal(org.ada.principal)
    session = await view.create_session(NewSession(title="long"))
    await view.append_messages(session.id, [Message.user(str(n)) for n in range(6)])
    await view.commit_compaction(
        session.id,
        NewCompaction(strategy="summary", params={}, first_seq=1, last_seq=4, summary="Four numbers."),
    )
    answer = await org.ada.get(f"/api/sessions/{session.id}/compactions")
    (fold,) = decoded(answer, shapes.Compactions).compactions
    assert (fold.first_seq, fold.last_seq, fold.summary) == (1, 4, "Four numbers.")


async def test_what_a_model_is_shown_by_the_compactions_in_effect_is_told(
    org: Organization, store: Store
) -> None:
    view = store.as_principal(org.ada.principal)
    session = await view.create_session(NewSession(title="long"))
    await view.append_messages(session.id, [Message.user(str(n)) for n in range(9)])
    made: list[CompactionId] = []

    async def compact(plan: Plan) -> shapes.Compactions:
        touched = plan.touched
        new = NewCompaction(
            strategy="by hand",
            first_seq=touched[0][0],
            last_seq=touched[-1][1],
            summary=plan.summary,
            parent_id=made[-1] if made else None,
            edits=plan.edits(),
        )
        made.append((await view.commit_compaction(session.id, new)).id)
        return await listed()

    async def listed() -> shapes.Compactions:
        answer = await org.ada.get(f"/api/sessions/{session.id}/compactions")
        found: shapes.Compactions = decoded(answer, shapes.Compactions)
        assert tuple(found.in_effect) == tuple(made)
        return found

    short = tuple(Replacement(seq=seq, content={"type": "text", "text": "…"}) for seq in (2, 6))
    first = await compact(Plan(replaced=short))
    less = tuple(shapes.Shortened(compaction_id=made[0], seq=seq) for seq in (2, 6))
    assert first.layout == shapes.Layout(shortened=less)
    await compact(Plan(folds=(Fold(ranges=((1, 2),), tokens=1, summary="Two."),)))
    second = await compact(Plan(folds=(Fold(ranges=((1, 2), (4, 5)), tokens=1, summary="Four."),)))
    standing = shapes.Fold(compaction_id=made[-1], ranges=((1, 2), (4, 5)), summary="Four.")
    assert second.layout == shapes.Layout(folds=(standing,), shortened=less[1:])
    third = await compact(Plan(dropped=((1, 2), (4, 6))))
    gone = tuple(
        shapes.Gap(compaction_id=made[-1], first_seq=first, last_seq=last) for first, last in ((1, 2), (4, 6))
    )
    assert third.layout == shapes.Layout(gaps=gone)
    await view.undo_compaction(session.id, made.pop())
    assert (await listed()).layout == second.layout


async def test_a_repository_is_made_where_nothing_is_and_found_by_a_scan(
    org: Organization, served: Served
) -> None:
    created = decoded(await org.admin.post("/api/repos", {"name": "fresh"}), shapes.Repo)
    assert created.path == str(served.workspace / "fresh")
    assert (served.workspace / "fresh" / ".git").is_dir()
    found = decoded(await org.admin.post("/api/repos/scan"), shapes.Repos).repos
    assert created.id in [repo.id for repo in found]
    assert problem(await org.admin.post("/api/repos", {"name": "fresh"}))["code"] == "path_taken"
    for name in (".hidden", "a/b", ""):
        refused = problem(await org.admin.post("/api/repos", {"name": name}))
        assert (refused["status"], refused["detail"].split(" is ")[0]) == (400, "A repository's name")
    assert problem(await org.admin.post("/api/repos", {"name": "../out"}))["code"] == "path_traversal"
    (denied, *_) = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
    assert (denied.user, denied.outcome, denied.detail["code"]) == ("root", "denied", "path_traversal")
