"""Views: an agent sees its own sessions, a member their own, an admin those of the organization."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast import (
    Message,
    NewCompaction,
    NewSession,
    NewTurn,
    PeerKind,
    Principal,
    PrincipalRole,
    Repo,
    Session,
    SessionFilter,
    SessionKey,
    SessionPatch,
    Store,
    TurnAnswer,
)
from holdfast.errors import AccessDenied, HoldfastError, InvalidInput, NotFound, SessionNotFound
from holdfast.model.ids import CompactionId, MessageId, TurnId
from holdfast.store.ids import new_id

ADA = Principal("acme", "ada")
BOB = Principal("acme", "bob")
ADMIN = Principal("acme", "root", PrincipalRole.ADMIN)
STRANGER = Principal("other", "ada", PrincipalRole.ADMIN)

Call = Callable[[Store, Session], Awaitable[object]]


async def read_json(store: Store, session: Session) -> object:
    return [piece async for piece in store.history_json(session.id)]


READS: dict[str, Call] = {
    "get_session": lambda store, session: store.get_session(session.id),
    "get_session by key": lambda store, session: store.get_session(session.key),
    "get_history": lambda store, session: store.get_history(session.id),
    "history_json": read_json,
    "changes": lambda store, session: store.changes(session.id, 0),
    "list_turns": lambda store, session: store.list_turns(session.id),
    "last_turn": lambda store, session: store.last_turn(session.id),
    "get_turn": lambda store, session: store.get_turn(session.id, TurnId(new_id())),
    "get_message": lambda store, session: store.get_message(session.id, MessageId(new_id())),
    "list_compactions": lambda store, session: store.list_compactions(session.id),
}
WRITES: dict[str, Call] = {
    "append": lambda store, session: store.append_messages(session.id, [Message.user("intruder")]),
    "append nothing": lambda store, session: store.append_messages(session.id, []),
    "append with an id": lambda store, session: store.append_messages(
        session.id, [Message.user("intruder", id=MessageId(new_id()))]
    ),
    "append by key": lambda store, session: store.append_messages(session.key, [Message.user("intruder")]),
    "open_stream": lambda store, session: store.open_stream(session.id, Message.agent("", partial=True)),
    "patch": lambda store, session: store.patch(session.id, SessionPatch(title="mine")),
    "empty patch": lambda store, session: store.patch(session.id, SessionPatch()),
    "delete": lambda store, session: store.delete(session.id),
    "add_turn": lambda store, session: store.add_turn(session.id, NewTurn(instruction_summary="x")),
    "complete_turn": lambda store, session: store.complete_turn(
        session.id, TurnId(new_id()), TurnAnswer(agent_answer_summary="x")
    ),
    "commit_compaction": lambda store, session: store.commit_compaction(
        session.id, NewCompaction(first_seq=1, last_seq=1, strategy="s", summary="x")
    ),
    "undo_compaction": lambda store, session: store.undo_compaction(session.id, CompactionId(new_id())),
}


@pytest.mark.req("STO-20")
@pytest.mark.parametrize("name", [*READS, *WRITES])
async def test_another_agent_is_denied_everything_and_both_are_named(store: Store, name: str) -> None:
    session = await store.create_session(NewSession(agent="alpha"))
    await store.append_messages(session.id, [Message.user("secret")])
    before = await store.get_session(session.id)
    with pytest.raises(
        AccessDenied, match=r"belongs to agent 'alpha'; agent 'Alpha' has no access"
    ) as denial:
        await (READS | WRITES)[name](store.as_agent("Alpha"), session)
    assert denial.value.status == 403
    assert await store.get_session(session.id) == before


@pytest.mark.req("STO-20")
async def test_an_agent_uses_its_own_sessions_and_cannot_make_others(store: Store) -> None:
    alpha = store.as_agent("alpha")
    mine = SessionKey("alpha", "irc", "me", PeerKind.DM, "ada")
    session = await alpha.get_or_create(mine)
    await alpha.append_messages(mine, [Message.user("hello")])
    assert [message.text for message in await alpha.get_history(session.id)] == ["hello"]
    theirs = SessionKey("beta", "irc", "me", PeerKind.DM, "ada")
    with pytest.raises(AccessDenied):
        await alpha.get_or_create(theirs)
    with pytest.raises(AccessDenied):
        await alpha.create_session(NewSession(agent="beta"))
    assert (await store.list()).total == 1


@pytest.mark.req("STO-20", "STO-23")
async def test_an_agent_lists_its_own_and_only_admins_list_across_agents(store: Store) -> None:
    for agent in ("alpha", "alpha", "beta"):
        await store.as_principal(ADA).create_session(NewSession(agent=agent))
    await store.as_principal(BOB).create_session(NewSession(agent="gamma"))
    agents = {
        who: sorted(session.agent for session in await view.list())
        for who, view in {
            "alpha": store.as_principal(ADMIN).as_agent("alpha"),
            "ada": store.as_principal(ADA),
            "bob": store.as_principal(BOB),
            "admin": store.as_principal(ADMIN),
            "stranger": store.as_principal(STRANGER),
        }.items()
    }
    assert agents == {
        "alpha": ["alpha", "alpha"],
        "ada": ["alpha", "alpha", "beta"],
        "bob": ["gamma"],
        "admin": ["alpha", "alpha", "beta", "gamma"],
        "stranger": [],
    }
    with pytest.raises(AccessDenied):
        await store.as_agent("alpha").list(SessionFilter(agent_id="beta"))
    assert (await store.as_principal(BOB).list(SessionFilter(owner="ada"))).total == 0
    assert (await store.as_principal(BOB).list(SessionFilter(owner="bob"))).total == 1


@pytest.mark.parametrize("name", [*READS, *WRITES])
@pytest.mark.parametrize("who", [BOB, STRANGER], ids=["another user", "another organization"])
async def test_what_a_caller_may_not_see_is_not_found(store: Store, who: Principal, name: str) -> None:
    ada = store.as_principal(ADA)
    session = await ada.create_session(NewSession())
    await ada.append_messages(session.id, [Message.user("secret")])
    before = await ada.get_session(session.id)
    with pytest.raises(SessionNotFound):
        await (READS | WRITES)[name](store.as_principal(who), session)
    assert await ada.get_session(session.id) == before


@pytest.mark.parametrize("name", [*READS, *WRITES])
async def test_an_admin_reaches_every_session_of_the_organization(store: Store, name: str) -> None:
    ada = store.as_principal(ADA)
    session = await ada.create_session(NewSession())
    await ada.append_messages(session.id, [Message.user("said")])
    refusal: HoldfastError | None = None
    try:
        await (READS | WRITES)[name](store.as_principal(ADMIN), session)
    except HoldfastError as error:
        refusal = error
    assert refusal is None or type(refusal) is NotFound  # a turn that does not exist, in a session that does


async def test_a_public_session_is_read_by_colleagues_and_written_by_its_owner(store: Store) -> None:
    ada, bob = store.as_principal(ADA), store.as_principal(BOB)
    session = await ada.create_session(NewSession(is_public=True))
    await ada.append_messages(session.id, [Message.user("for all")])
    assert [message.text for message in await bob.get_history(session.id)] == ["for all"]
    for name, write in WRITES.items():
        with pytest.raises(AccessDenied, match="only ada may write"):
            await write(bob, session)
        assert (await ada.get_session(session.id)).message_count == 1, name
    with pytest.raises(SessionNotFound):
        await store.as_principal(STRANGER).get_session(session.id)


async def test_two_organizations_may_use_the_same_key(store: Store, key: SessionKey) -> None:
    acme = await store.as_principal(ADMIN).get_or_create(key)
    other = await store.as_principal(STRANGER).get_or_create(key)
    assert acme.id != other.id
    await store.as_principal(ADMIN).append_messages(key, [Message.user("ours")])
    assert (await store.as_principal(STRANGER).get_history(key)).messages == []
    assert (await store.as_system().get_session(other.id)).organization == "other"


async def test_repositories_tokens_and_audit_stay_inside_the_organization(store: Store) -> None:
    acme, other = store.as_principal(ADMIN), store.as_principal(STRANGER)
    (repo,) = await acme.save_repos([Repo(name="r", path="/r")])
    token = await acme.add_token(ADA, "hash", "laptop")
    await acme.audit("read", "denied")
    assert ([*await other.list_repos()], [*await other.list_tokens()], [*await other.list_audit()]) == (
        [],
        [],
        [],
    )
    assert repo.id is not None
    with pytest.raises(NotFound):
        await other.get_repo(repo.id)
    with pytest.raises(NotFound):
        await other.delete_repo(repo.id)
    with pytest.raises(NotFound):
        await other.revoke_token(token.id)
    with pytest.raises(NotFound):
        await other.create_session(NewSession(repo_id=repo.id))


@pytest.mark.req("STO-20")
async def test_a_view_is_not_made_wider(store: Store) -> None:
    alpha = store.as_agent("alpha")
    assert alpha.as_agent("alpha").user == store.user
    wider: list[Callable[[], Store]] = [
        lambda: alpha.as_agent("beta"),
        lambda: alpha.as_system(),
        lambda: alpha.as_principal(ADMIN),
        lambda: store.as_principal(BOB).as_principal(ADA),
        lambda: store.as_principal(BOB).as_system(),
    ]
    for widen in wider:
        with pytest.raises(AccessDenied, match=r"Only an admin|has no access"):
            widen()
    with pytest.raises(InvalidInput, match="must not be empty"):
        store.as_agent("")


@pytest.mark.req("STO-20", "STO-23")
@pytest.mark.parametrize("who", ["a member", "an agent"])
async def test_what_concerns_everybody_is_for_admins(store: Store, who: str, tmp_path: Path) -> None:
    admin = store.as_principal(ADMIN)
    token = await admin.add_token(ADA, "hash", "laptop")
    view = store.as_principal(BOB) if who == "a member" else admin.as_agent("alpha")
    for call in (
        view.list_tokens(),
        view.list_audit(),
        view.revoke_token(token.id),
        view.add_token(ADMIN, "other", "mine"),
        view.pending_turns(),
        view.count_sessions(),
        view.organizations(),
        view.backup(tmp_path / "copy"),
    ):
        with pytest.raises(AccessDenied, match="Only an admin"):
            await call
    assert [each.revoked_at for each in await admin.list_tokens()] == [None]


async def test_everybody_may_revoke_their_own_token(store: Store) -> None:
    token = await store.as_principal(ADMIN).add_token(ADA, "hash", "laptop")
    assert (await store.as_principal(ADA).revoke_token(token.id)).revoked_at is not None
