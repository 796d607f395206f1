"""The one table of allowed status changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidTransition, SessionEnded
from holdfast.model.status import (
    ENDED,
    LIVE,
    TRANSITIONS,
    SessionStatus,
    after_append,
    allowed,
    require_live,
    require_transition,
)

statuses = st.sampled_from(SessionStatus)


def test_every_status_has_a_row_in_the_table() -> None:
    assert TRANSITIONS.keys() == set(SessionStatus)
    assert LIVE | ENDED | {SessionStatus.ARCHIVED} == set(SessionStatus)


@given(statuses)
def test_staying_is_always_allowed(status: SessionStatus) -> None:
    assert allowed(status, status)


@given(st.lists(statuses, max_size=12))
def test_a_session_that_failed_is_never_live_again(wishes: list[SessionStatus]) -> None:
    status, archived_from = SessionStatus.ERROR, None
    for target in wishes:
        if allowed(status, target, archived_from=archived_from):
            if target is SessionStatus.ARCHIVED:
                archived_from = archived_from or status
            status = target
        assert status in {SessionStatus.ERROR, SessionStatus.ARCHIVED}


@given(statuses, statuses)
def test_an_archived_session_has_the_rights_it_was_archived_with(
    before: SessionStatus, target: SessionStatus
) -> None:
    if before is SessionStatus.ARCHIVED or target is SessionStatus.ARCHIVED:
        return
    assert allowed(SessionStatus.ARCHIVED, target, archived_from=before) == allowed(before, target)


@pytest.mark.parametrize("ended", sorted(ENDED))
def test_an_ended_session_takes_no_instruction_and_says_why(ended: SessionStatus) -> None:
    with pytest.raises(SessionEnded, match=f"session is {ended}") as refusal:
        require_live(ended)
    assert refusal.value.status == 409
    assert refusal.value.session_status == ended


def test_a_refused_change_names_both_statuses() -> None:
    with pytest.raises(InvalidTransition, match="error cannot become active"):
        require_transition(SessionStatus.ERROR, SessionStatus.ACTIVE)


@given(statuses)
def test_something_said_makes_a_live_session_active_and_leaves_an_ended_one(status: SessionStatus) -> None:
    assert after_append(status) is (SessionStatus.ACTIVE if status in LIVE else status)
