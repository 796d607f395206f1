"""Listing: every filter, both orders, exact totals, pages that neither skip nor repeat."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import (
    Message,
    NewSession,
    NewTurn,
    PeerKind,
    Principal,
    PrincipalRole,
    Repo,
    Session,
    SessionFilter,
    SessionKey,
    SessionOrder,
    SessionPatch,
    SessionStatus,
    Store,
    open_store,
)
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.ids import RepoId
from holdfast.store.ids import new_id
from tests.long_plugin import Trials
from tests.store.conftest import Clock
from tests.waiting import SECONDS

STATUSES = [SessionStatus.ACTIVE, SessionStatus.IDLE, SessionStatus.COMPLETED, SessionStatus.ARCHIVED]


async def populate(store: Store, clock: Clock, count: int, seed: int) -> list[Session]:
    """Sessions of two users, three agents, two repositories and four statuses, each at its own time."""
    chance = random.Random(seed)
    repos = [*await store.save_repos([Repo(name=name, path=f"/r/{name}") for name in ("a", "b")]), None]
    sessions = []
    for number in range(count):
        clock.now += 1000
        agent = chance.choice(["main", "gemini", "codex"])
        repo = chance.choice(repos)
        key = SessionKey(
            agent, chance.choice(["irc", "slack"]), "me", chance.choice(list(PeerKind)), f"#{number}"
        )
        view = store.as_principal(Principal("local", chance.choice(["ada", "bob"]), PrincipalRole.ADMIN))
        new = NewSession(agent=agent, repo_id=repo.id if repo else None, title=str(number), key=key)
        session = await view.create_session(new)
        if (status := chance.choice(STATUSES)) is not SessionStatus.ACTIVE:
            await store.patch(session.id, SessionPatch(status=status))
        sessions.append(session)
    for session in chance.sample(sessions, count // 2):
        clock.now += 1000
        await store.append_messages(session.id, [Message.user("touched")])
    return [await store.get_session(session.id) for session in sessions]


def expected(sessions: list[Session], order: SessionOrder, **wanted: Any) -> list[str]:
    def matches(session: Session) -> bool:
        return (
            (wanted.get("agent_id") in (None, session.agent))
            and (wanted.get("channel") in (None, session.key.channel))
            and (wanted.get("account_id") in (None, session.key.account_id))
            and (wanted.get("peer_kind") in (None, session.key.peer_kind))
            and (wanted.get("peer_id") in (None, session.key.peer_id))
            and (wanted.get("repo_id") in (None, session.repo_id))
            and (wanted.get("owner") in (None, session.owner))
            and (wanted.get("status") is None or session.status in wanted["status"])
            and ("created_after" not in wanted or session.created_at > wanted["created_after"])
            and ("created_before" not in wanted or session.created_at < wanted["created_before"])
            and ("updated_after" not in wanted or session.updated_at > wanted["updated_after"])
            and ("updated_before" not in wanted or session.updated_at < wanted["updated_before"])
        )

    newest_first = sorted(
        sessions, key=lambda s: s.updated_at if order is SessionOrder.UPDATED else s.created_at, reverse=True
    )
    return [session.id for session in newest_first if matches(session)]


@pytest.mark.req("STO-02")
async def test_any_combination_of_filters_gives_exactly_the_matching_sessions(
    store_url: str, clock: Clock, trials: Trials
) -> None:
    chance = trials.chance()
    async with open_store(store_url, clock=clock) as store:
        sessions = await populate(store, clock, 60, seed=1)
    # Reopened, so that the order by last activity is caught up with the last append.
    async with open_store(store_url, clock=clock) as store:
        repos = await store.list_repos()
        middle = sorted(session.created_at for session in sessions)[30]
        choices: dict[str, list[Any]] = {
            "agent_id": ["main", "gemini", "nobody"],
            "channel": ["irc", "slack"],
            "account_id": ["me", "you"],
            "peer_kind": list(PeerKind),
            "peer_id": ["#1", "#2"],
            "repo_id": [repo.id for repo in repos],
            "owner": ["ada", "bob", "eve"],
            "status": [{status} for status in STATUSES] + [set(STATUSES[:2]), set(STATUSES), set()],
            "created_after": [middle],
            "created_before": [middle],
            "updated_after": [middle],
            "updated_before": [middle],
        }
        for _ in range(60):
            names = chance.sample(list(choices), chance.randrange(4))
            wanted = {name: chance.choice(choices[name]) for name in names}
            order = chance.choice(list(SessionOrder))
            page = await store.list(SessionFilter(**wanted, order=order, limit=5))
            matching = expected(sessions, order, **wanted)
            assert page.total == len(matching), wanted
            found = [session.id for session in page]
            while page.next:
                page = await store.list(SessionFilter(**wanted, order=order, limit=5, before=page.next))
                assert page.total == len(matching)
                found += [session.id for session in page]
            assert found == matching, wanted
            skipped = await store.list(SessionFilter(**wanted, order=order, limit=5, offset=3))
            assert [session.id for session in skipped] == matching[3:8]
            assert skipped.total == len(matching)


@pytest.mark.req("STO-02")
async def test_totals_follow_every_change(store: Store, key: SessionKey) -> None:
    async def totals(**wanted: Any) -> int:
        return (await store.list(SessionFilter(**wanted, limit=1, offset=5))).total

    (repo,) = await store.save_repos([Repo(name="a", path="/a")])
    assert await totals() == 0
    ids = [(await store.create_session(NewSession(repo_id=repo.id))).id for _ in range(4)]
    await store.get_or_create(key)
    assert (await totals(), await totals(repo_id=repo.id), await totals(agent_id="main")) == (5, 4, 5)
    await store.patch(ids[0], SessionPatch(status=SessionStatus.COMPLETED))
    assert (await totals(status={"active"}), await totals(status={"completed"})) == (4, 1)
    assert await totals(status={"active", "completed"}, repo_id=repo.id) == 4
    await store.delete(ids[1])
    assert (await totals(), await totals(repo_id=repo.id)) == (4, 3)
    assert repo.id is not None
    await store.delete_repo(repo.id)
    assert (await totals(), (await store.get_session(ids[2])).repo_id) == (4, None)
    with pytest.raises(NotFound, match="repository"):
        await totals(repo_id=repo.id)


@pytest.mark.req("STO-02")
async def test_a_page_may_be_read_while_sessions_come_and_go(store_url: str, clock: Clock) -> None:
    async with open_store(store_url, clock=clock) as store:
        old = [(await store.create_session(NewSession(title=str(number)))).id for number in range(10)]
        page = await store.list(SessionFilter(order=SessionOrder.CREATED, limit=4))
        found = [session.id for session in page]
        await store.create_session(NewSession(title="new"))
        await store.delete(old[5])
        while page.next:
            page = await store.list(SessionFilter(order=SessionOrder.CREATED, limit=4, before=page.next))
            found += [session.id for session in page]
        assert found == [session_id for session_id in reversed(old) if session_id != old[5]]


async def test_the_order_by_activity_catches_up_by_itself(store_url: str, clock: Clock) -> None:
    async with open_store(store_url, clock=clock) as store:
        first = await store.create_session(NewSession())
        clock.now += 1000
        await store.create_session(NewSession())
        clock.now += 1000
        await store.append_messages(first.id, [Message.user("now the newest")])
        await eventually(store, first.id)


async def eventually(store: Store, newest: str) -> None:
    async with asyncio.timeout(SECONDS):
        while (await store.list()).sessions[0].id != newest:  # noqa: ASYNC110  # it is a database that changes
            await asyncio.sleep(0.01)
    assert (await store.list()).sessions[0].id == newest


@pytest.mark.parametrize(
    "bad",
    [
        {"limit": 0},
        {"limit": -1},
        {"offset": -1},
        {"status": {"sleeping"}},
        {"channel": "a\0"},
        {"limit": 10**6},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SessionFilter(**bad)


@pytest.mark.parametrize(
    "cursor", ["", "x", "created-1-1", "updated-a-b", "updated-1", "updated-1-1; DROP TABLE"]
)
async def test_a_cursor_that_is_none_of_ours_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await store.list(SessionFilter(before=cursor))


async def test_an_unknown_repository_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.list(SessionFilter(repo_id=RepoId(new_id())))


async def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        await store.list(SessionFilter(created_after=datetime(2026, 1, 1)))  # noqa: DTZ001
    assert (await store.list(SessionFilter(created_after=datetime.now(UTC) + timedelta(days=1)))).total == 0


async def test_a_listing_shows_what_another_process_has_changed(store_url: str) -> None:
    async with open_store(store_url) as store, open_store(store_url) as another:
        session = await store.create_session(NewSession(title="before"))
        assert [each.title for each in await store.list()] == ["before"]
        changes = [
            another.patch(session.id, SessionPatch(title="after", custom={"a": 1})),
            another.append_messages(session.id, [Message.user("hello")]),
            another.add_turn(session.id, NewTurn(instruction_summary="go")),
            another.patch(session.id, SessionPatch(status=SessionStatus.ARCHIVED)),
        ]
        for change in changes:
            await change
            assert (await store.list()).sessions == [await store.get_session(session.id)]


async def test_who_writes_into_a_listed_session_changes_nobody_elses(store: Store) -> None:
    await store.create_session(NewSession(custom={"tags": ["a"]}))
    (mine,) = await store.list()
    mine.custom["tags"].append("b")
    mine.agent_state["mode"] = "mine"
    (theirs,) = await store.list()
    assert (theirs.custom, theirs.agent_state) == ({"tags": ["a"]}, {})


async def test_more_sessions_are_listed_than_are_remembered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.known.MAX_KNOWN", 3)
    titles = [str(number) for number in range(10)]
    for title in titles:
        await store.create_session(NewSession(title=title))
    for limit in (2, 10, 4):
        page = await store.list(SessionFilter(order=SessionOrder.CREATED, limit=limit))
        assert [each.title for each in page] == titles[: -limit - 1 : -1]
