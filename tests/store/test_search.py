"""Search: titles and messages, exactly what the caller may list; nothing is read before anybody searched."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast import (
    Message,
    NewSession,
    Principal,
    PrincipalRole,
    Repo,
    Session,
    SessionFilter,
    SessionOrder,
    SessionPatch,
    SessionStatus,
    Store,
    open_store,
)
from holdfast.errors import AccessDenied, MessageFinal
from holdfast.model.content import JsonContent, PlanContent, ToolContent
from holdfast.model.records import MoveAction, MoveStep
from holdfast.store import search, sqlite_path, word_index
from tests.long_plugin import Trials
from tests.store.conftest import Clock
from tests.store.test_schema import query
from tests.waiting import SECONDS

ADA = Principal("acme", "ada")
BOB = Principal("acme", "bob")
ADMIN = Principal("acme", "root", PrincipalRole.ADMIN)
STRANGER = Principal("other", "ada", PrincipalRole.ADMIN)


async def said(store: Store, *texts: str, **fields: object) -> Session:
    """A session in which this was said."""
    session = await store.create_session(NewSession(**fields))  # type: ignore[arg-type]
    await store.append_messages(session.id, [Message.user(text) for text in texts])
    return session


async def found(store: Store, text: str, **fields: object) -> list[str]:
    while (page := await store.list(SessionFilter(text=text, **fields))).unread:  # type: ignore[arg-type]
        """Asked again, it goes on."""
    return [session.id for session in page]


async def test_a_title_or_one_message_with_all_of_the_words(store: Store) -> None:
    titled = await said(store, "Nothing of it here", title="The Stripe webhook")
    here = await said(store, "Look at the webhook", "that Stripe calls", "Stripe's WEBHOOKS fail, résumé")
    await said(store, "Stripe", "webhook")
    assert set(await found(store, "stripe webhook")) == {titled.id, here.id}
    assert await found(store, "Webhooks stripe") == [here.id]
    assert await found(store, "fail resu") == [here.id]
    assert await found(store, "resu fail") == []
    assert await found(store, "web-hook") == []
    assert await found(store, "HE STRIPE W") == [titled.id]
    assert await found(store, " … ") == []


async def test_the_newest_message_that_was_found_is_given_with_its_place(store: Store) -> None:
    session = await said(store, "first webhook", "something else", "second\nwebhook\nof all", "the end")
    titled = await said(store, "nothing", title="webhook")
    page = await store.list(SessionFilter(text="webh"))
    assert page.matches.keys() == {session.id}
    match = page.matches[session.id]
    message = (await store.get_history(session.id)).messages[2]
    assert (match.seq, match.message_id) == (3, message.id)
    assert [(piece.text, piece.hit) for piece in match.snippet] == [
        ("second ", False),
        ("webhook", True),
        (" of all", False),
    ]
    assert {each.id for each in page} == {session.id, titled.id}


async def test_plans_and_tools_are_found_by_what_a_person_reads_of_them(store: Store) -> None:
    session = await store.create_session(NewSession())
    tool = ToolContent(tool="bash", args={"command": "pytest"}, title="Run tests", status="completed")
    plan = PlanContent(steps=({"content": "Mend the gearbox", "priority": "high"},))
    await store.append_messages(session.id, [Message.of("tool", tool), Message.of("agent", plan)])
    for word in ("pytest", "run", "gearbox"):
        assert await found(store, word) == [session.id], word
    for word in ("completed", "command", "priority", "high", session.id):
        assert await found(store, word) == [], word


QUERIES = (
    *('"', '""', "'", "''", "*", "f*", ":*", "fox OR dog", "fox AND", "NOT fox", "NEAR(fox dog)"),
    *("fox & dog", "fox | dog", "!fox", "fox <-> dog", "(fox", "fox)", "^fox", "fox:A", "fox\\", "%", "_"),
    *("words:fox", "fox'; DROP TABLE messages; --", '"fox" OR "dog"', "§", "\ufffd", "𝔣𝔬𝔵"),
)


async def test_what_is_looked_for_is_never_a_query(store: Store) -> None:
    fox, dog = await said(store, "a fox"), await said(store, "a dog")
    for text in QUERIES:
        either = await found(store, text)
        assert not {fox.id, dog.id} <= set(either), text
    assert await found(store, "𝔣𝔬𝔵") == [fox.id]


async def test_a_search_finds_what_a_listing_shows_and_nothing_else(store: Store) -> None:
    ada, bob, admin, stranger = (store.as_principal(who) for who in (ADA, BOB, ADMIN, STRANGER))
    mine = await said(ada, "the secret word")
    theirs = await said(bob, "the secret word", is_public=True)
    elsewhere = await said(stranger, "the secret word")
    assert await found(ada, "secret") == [mine.id]
    assert await found(bob, "secret") == [theirs.id]
    assert set(await found(admin, "secret")) == {mine.id, theirs.id}
    assert await found(admin, "secret", owner="bob") == [theirs.id]
    assert await found(stranger, "secret") == [elsewhere.id]
    assert await found(ada, "secret", owner="bob") == []
    assert await found(store, "secret") == []
    everywhere = await found(store.as_system(), "secret")
    assert set(everywhere) == {mine.id, theirs.id, elsewhere.id}


async def test_an_agent_finds_only_its_own(store: Store) -> None:
    one = await said(store, "the secret word", agent="one")
    two = await said(store, "the secret word", agent="two")
    assert await found(store.as_agent("one"), "secret") == [one.id]
    assert await found(store, "secret", agent_id="two") == [two.id]
    with pytest.raises(AccessDenied):
        await found(store.as_agent("one"), "secret", agent_id="two")


async def test_a_session_that_moved_to_another_agent_is_found_there(store: Store) -> None:
    session = await said(store, "the secret word", agent="one")
    assert await found(store.as_agent("one"), "secret") == [session.id]
    moved = msgspec.structs.replace(session.key, agent_id="two")
    step = MoveStep(
        action=MoveAction.MOVE, session_id=session.id, from_key=session.key_text, to_key=str(moved)
    )
    await store.move_sessions([step])
    assert await found(store.as_agent("one"), "secret") == []
    assert await found(store.as_agent("two"), "secret") == [session.id]


async def test_other_filters_hold_beside_the_text(store: Store) -> None:
    (repo,) = await store.save_repos([Repo(name="r", path="/r")])
    bound = await said(store, "a word", repo_id=repo.id)
    ended = await said(store, "a word", title="the word")
    await said(store, "another")
    await store.patch(ended.id, SessionPatch(status=SessionStatus.COMPLETED))
    assert set(await found(store, "word")) == {bound.id, ended.id}
    assert await found(store, "word", repo_id=repo.id) == [bound.id]
    assert await found(store, "word", status={"completed"}) == [ended.id]
    assert await found(store, "word", status={"active", "idle"}) == [bound.id]
    assert await found(store, "word", status=set()) == []
    assert await found(store, "word", participant="nobody") == []


@pytest.mark.parametrize("order", list(SessionOrder))
async def test_pages_neither_skip_nor_repeat(
    store_url: str, clock: Clock, order: SessionOrder, trials: Trials
) -> None:
    chance = trials.chance()
    async with open_store(store_url, clock=clock) as store:
        sessions = []
        for number in range(23):
            clock.now += 1000
            sessions.append(await said(store, "a needle", "hay", title="needle" if number % 3 else None))
        chance.shuffle(sessions)
        for session in sessions[:10]:
            clock.now += 1000
            await store.append_messages(session.id, [Message.user("more hay")])
    async with open_store(store_url, clock=clock) as store:
        whole = [session.id for session in await store.list(SessionFilter(order=order, limit=100))]
        seen: list[str] = []
        before = None
        while True:
            page = await store.list(SessionFilter(text="needle", order=order, limit=5, before=before))
            assert (page.total, page.is_all) == (23, True)
            seen += [session.id for session in page]
            before = page.next
            if before is None:
                break
        assert seen == whole
        skipped = await store.list(SessionFilter(text="needle", order=order, limit=5, offset=7))
        assert [session.id for session in skipped] == whole[7:12]


async def test_of_a_frequent_word_the_newest_messages_count_and_the_page_says_so(store: Store) -> None:
    old = await said(store, "the common word", "the rare word")
    many = await store.create_session(NewSession())
    for _ in range(search.NEWEST // 1000):
        await store.append_messages(many.id, [Message.user("the common word")] * 1000)
    page = await store.list(SessionFilter(text="common"))
    while page.unread:
        page = await store.list(SessionFilter(text="common"))
    assert ([session.id for session in page], page.is_all) == ([many.id], False)
    rare = await store.list(SessionFilter(text="rare word"))
    assert ([session.id for session in rare], rare.is_all) == ([old.id], True)


async def test_what_nobody_searches_is_never_read(store: Store, store_url: str) -> None:
    await said(store, "words, words, words")
    await store.list(SessionFilter(status={"active"}))
    assert await query(store_url, "SELECT last FROM word_progress") == [(0,)]
    await found(store, "words")
    ((last,),) = await query(store_url, "SELECT last FROM word_progress")
    assert last > 0


async def test_after_a_search_new_messages_are_read_in_the_background(store: Store, store_url: str) -> None:
    progress = "SELECT last FROM word_progress"
    await found(store, "anything")
    await said(store, "words, words, words")
    async with asyncio.timeout(SECONDS):
        while await query(store_url, progress) == [(0,)]:  # noqa: ASYNC110  # a condition, not an event
            await asyncio.sleep(0.05)


async def test_a_message_is_found_once_it_is_final(store: Store, store_url: str) -> None:
    session = await store.create_session(NewSession())
    stream = await store.open_stream(session.id, Message.agent("", partial=True))
    stream.write("a streamed ")
    await stream.drain()
    tool = ToolContent(tool="bash", args={}, status="in_progress")
    (running,) = await store.append_messages(session.id, [Message.of("tool", tool)])
    assert await found(store, "streamed") == []
    stream.write("sentence")
    await stream.end()
    assert await found(store, "streamed sentence") == [session.id]
    assert running.id is not None
    done = ToolContent(tool="bash", args={}, status="completed", result="42 passed")
    await store.revise_message(session.id, running.id, done)
    assert await found(store, "passed") == [session.id]
    assert await query(store_url, "SELECT count(*) FROM words_due") == [(0,)]


async def test_a_deleted_session_is_not_found_and_a_new_one_in_its_place_is(
    store: Store, store_url: str
) -> None:
    kept = await said(store, "the old word")
    session = await said(store, "the old word")
    stream = await store.open_stream(session.id, Message.agent("the unfinished word", partial=True))
    assert set(await found(store, "old")) == {kept.id, session.id}
    await store.delete(session.id)
    with pytest.raises(MessageFinal):
        await stream.end()
    assert await found(store, "old") == [kept.id]
    assert await query(store_url, "SELECT count(*) FROM words_due") == [(0,)]
    fresh = await said(store, "the new word", "and the newer word")
    assert await found(store, "old") == [kept.id]
    assert await found(store, "new") == [fresh.id]
    assert await found(store, "newer") == [fresh.id]
    await store.delete(fresh.id)
    await store.delete(kept.id)
    assert await found(store, "the") == []
    assert await found(store, "word") == []
    last = await said(store, "the last word")
    assert await found(store, "word") == [last.id]


async def test_what_takes_the_place_of_messages_that_were_not_read_is_found(
    store: Store, store_url: str
) -> None:
    kept = await said(store, "a word that stays")
    gone = await said(store, "a word that goes")
    assert set(await found(store, "word")) == {kept.id, gone.id}
    async with open_store(store_url) as other:  # where nobody searches, and so nobody reads
        await other.append_messages(gone.id, [Message.user("never read")])
        await other.delete(gone.id)
        fresh = await said(other, "a needle")
    assert await found(store, "needle") == [fresh.id]


async def test_what_another_process_says_is_found_and_read_once(store_url: str) -> None:
    async with open_store(store_url) as one, open_store(store_url) as two:
        sessions = [await said(view, "a shared word") for view in (one, two) * 10]
        searches: Sequence[list[str]] = await asyncio.gather(
            *(found(view, "shared", limit=100) for view in (one, two) * 3)
        )
        assert all(set(each) == {session.id for session in sessions} for each in searches)
        assert await one.problems() == []


async def test_where_nothing_can_be_written_a_search_finds_what_was_read_before(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        read = await said(store, "a known word")
        assert await found(store, "word") == [read.id]
        await said(store, "a new word", title="untouched")
    ((name,),) = await query(postgres_url, "SELECT current_database()")
    await query(postgres_url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    async with open_store(postgres_url) as store:
        page = await store.list(SessionFilter(text="word"))
        assert ([session.id for session in page], page.unread) == ([read.id], 1)
        assert (await store.list(SessionFilter(text="untouched"))).total == 1


async def test_what_cannot_be_read_is_not_found_and_hides_nothing_else(store: Store) -> None:
    session = await said(store, "before")
    odd = JsonContent(b'{"type":"x","n":1e999,"text":"odd"}')
    await store.append_messages(session.id, [Message.of("system", odd), Message.user("after")])
    assert (await found(store, "before"), await found(store, "after")) == ([session.id], [session.id])
    assert await found(store, "odd") == []


async def test_of_very_many_long_words_those_that_are_kept_are_found(store: Store) -> None:
    # One character of these is many letters of a word: more than PostgreSQL can tell apart in one row.
    words = [f"{number}ﷺﷺﷺﷺ" for number in range(9_000)]
    session = await said(store, " ".join(words))
    kept = [word for word in words[::100] if await found(store, word) == [session.id]]
    assert 45 < len(kept) < 90


async def test_after_a_vacuum_nothing_is_left_of_the_words_of_a_deleted_session(sqlite_url: str) -> None:
    async with open_store(sqlite_url) as store:
        session = await said(store, "the word is hunter2secret")
        assert await found(store, "hunter2secret") == [session.id]
        await store.delete(session.id)
        await store.vacuum()
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    assert b"hunter2secret" not in file.read_bytes()


async def test_a_session_deleted_while_its_messages_are_read_does_no_harm(store: Store) -> None:
    sessions = [await said(store, f"a word {number}") for number in range(40)]
    searches = asyncio.gather(*(store.list(SessionFilter(text="word", limit=100)) for _ in range(5)))
    for session in sessions[20:]:
        await store.delete(session.id)
        sessions.append(await said(store, "another word"))
    await searches
    left = {session.id for session in sessions[:20] + sessions[40:]}
    assert set(await found(store, "word", limit=100)) == left


async def test_a_long_backlog_is_read_while_the_search_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await said(store, *["a word"] * 1000, "the last")
    monkeypatch.setattr(word_index, "SEARCH_SECONDS", 0.0)
    page = await store.list(SessionFilter(text="last"))
    assert (page.sessions, page.total) == ([], 0)
    assert 0 < page.unread <= 1001
    async with asyncio.timeout(SECONDS):
        while page.unread:  # somebody who goes on asking, and the background, get there
            page = await store.list(SessionFilter(text="last"))
    assert [each.id for each in page] == [session.id]


async def until_found(store: Store, total: int) -> None:
    async with asyncio.timeout(SECONDS):
        while (await store.list(SessionFilter(text="word"))).total != total:
            pass


async def test_a_search_does_not_wait_for_who_writes(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "SEARCH_SECONDS", 0.05)
    monkeypatch.setattr(word_index, "PAUSE_SECONDS", 3600)  # nothing is read in the background
    async with open_store(sqlite_url) as store:
        session = await said(store, "an old word")
        await until_found(store, 1)
        await said(store, "a new word")
        writer = apsw.Connection(str(sqlite_path(sqlite_url)))
        writer.execute("BEGIN IMMEDIATE")
        page = await store.list(SessionFilter(text="word"))  # nothing can be written until it has answered
        assert ([each.id for each in page], page.unread) == ([session.id], 1)
        writer.execute("ROLLBACK")
        writer.close()
        await until_found(store, 2)


async def test_what_others_have_said_is_not_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "SEARCH_SECONDS", 0.0)
    ours = store.as_principal(Principal("ours", "ada"))
    theirs = store.as_principal(Principal("theirs", "bob"))
    session = await theirs.create_session(NewSession())
    await theirs.append_messages(session.id, [Message.user("a word")] * 1000)
    assert (await ours.list(SessionFilter(text="word"))).unread == 0
    assert (await theirs.list(SessionFilter(text="word"))).unread > 0


async def test_only_as_many_snippets_are_made_as_a_person_reads(store: Store) -> None:
    for number in range(search.MATCHES + 5):
        await said(store, f"word {number}")
    page = await store.list(SessionFilter(text="word", limit=1000))
    assert (len(page.sessions), len(page.matches)) == (search.MATCHES + 5, search.MATCHES)
    assert set(page.matches) == {session.id for session in page.sessions[: search.MATCHES]}
