"""The policy: what an agent may do without a person being asked."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.permissions import Decision, Policy, Rule, ToolCall, ToolKind
from holdfast.agents.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    repo = tmp_path / "repo"
    for directory in ("docs/api", "secret", "src"):
        (repo / directory).mkdir(parents=True)
    (repo / "docs" / "link").symlink_to(repo / "secret")
    (repo / "docs" / "out").symlink_to(tmp_path)
    return Workspace(repo)


def rule(decision: str, kind: str | None = None, path: str | None = None) -> Rule:
    return msgspec.convert({"decision": decision, "kind": kind, "path": path}, Rule)


def edit(*paths: Any, kind: Any = "edit") -> dict[str, Any]:
    return {"toolCallId": "1", "kind": kind, "locations": [{"path": path} for path in paths]}


def decided(policy: Policy, call: dict[str, Any], workspace: Workspace) -> Decision:
    return policy.decide(ToolCall.of(call, workspace)).decision


def applies(pattern: str, path: str, workspace: Workspace) -> bool:
    return rule("allow", path=pattern).applies(ToolCall.of(edit(path), workspace))


def test_nothing_said_is_to_ask(workspace: Workspace) -> None:
    ruling = Policy().decide(ToolCall.of({}, workspace))
    assert (ruling.decision, ruling.by) == (Decision.ASK, "default: ask")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("docs/**", ["docs/a.md", "docs/api/a.md", "docs"], ["src/a.md", "a.md", "documents/a.md"]),
        ("docs/*", ["docs/a.md", "docs/.hidden"], ["docs/api/a.md", "docs"]),
        ("**/*.py", ["a.py", "src/a.py", "src/deep/a.py"], ["a.pyc", "src/py"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_a.py"], ["src/a.py", "test_a.py"]),
        ("**", ["a", "src/a", "."], ["../a"]),
        ("README.md", ["README.md", "src/../README.md"], ["src/README.md", "readme.md"]),
        ("[ab].txt", ["a.txt"], ["c.txt", "[ab].txt"]),
    ],
)
def test_patterns(workspace: Workspace, pattern: str, inside: list[str], outside: list[str]) -> None:
    for path in inside:
        assert applies(pattern, path, workspace), path
        assert applies(pattern, str(workspace.root / path), workspace), path
    for path in outside:
        assert not applies(pattern, path, workspace), path


@pytest.mark.parametrize(
    "path", ["docs/../secret/a", "docs/link/a", "docs/out/a", "docs/../../x", "/etc/passwd"]
)
def test_no_detour_leads_into_what_is_allowed(workspace: Workspace, path: str) -> None:
    policy = Policy(rules=(rule("allow", "edit", "docs/**"),))
    assert decided(policy, edit("docs/a"), workspace) is Decision.ALLOW
    assert decided(policy, edit(path), workspace) is Decision.ASK
    assert decided(policy, edit("docs/a", path), workspace) is Decision.ASK


@pytest.mark.parametrize("path", ["secret/a", "docs/link/a", "docs/../secret/a", "./secret//a"])
def test_no_detour_leads_around_what_is_denied(workspace: Workspace, path: str) -> None:
    policy = Policy(default=Decision.ALLOW, rules=(rule("deny", path="secret/**"),))
    assert decided(policy, edit("docs/a"), workspace) is Decision.ALLOW
    assert decided(policy, edit(path), workspace) is Decision.DENY
    assert decided(policy, edit("docs/a", path), workspace) is Decision.DENY


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "docs/out/x", "", "a\0b", None, 7, "x/" * 10_000])
def test_nothing_outside_is_allowed_without_a_person(workspace: Workspace, path: Any) -> None:
    for policy in (
        Policy(default=Decision.ALLOW),
        Policy(rules=(rule("allow", "edit"),)),
        Policy(rules=(rule("allow", path="**"),)),
    ):
        assert decided(policy, edit("docs/a"), workspace) is Decision.ALLOW
        assert decided(policy, edit(path), workspace) is Decision.ASK
    assert decided(Policy(default=Decision.DENY), edit(path), workspace) is Decision.DENY


def test_the_first_rule_that_applies_decides_and_is_named(workspace: Workspace) -> None:
    rules = (rule("deny", "execute"), rule("allow", "edit", "docs/**"), rule("deny", "edit"))
    policy = Policy(default=Decision.ALLOW, rules=rules)

    def ruling(call: dict[str, Any]) -> tuple[str, str]:
        made = policy.decide(ToolCall.of(call, workspace))
        return made.decision.value, made.by

    assert ruling({"kind": "execute"}) == ("deny", "rule 1: deny execute")
    assert ruling(edit("docs/a")) == ("allow", "rule 2: allow edit docs/**")
    assert ruling(edit("src/a")) == ("deny", "rule 3: deny edit")
    assert ruling(edit()) == ("deny", "rule 3: deny edit")
    assert ruling(edit("src/a", kind="read")) == ("allow", "default: allow")
    assert ruling(edit("/etc", kind="read")) == ("ask", "a path outside the workspace")


def test_files_of_diffs_count_as_much_as_locations(workspace: Workspace) -> None:
    policy = Policy(rules=(rule("allow", "edit", "docs/**"),))
    diffs = [
        {"type": "diff", "path": "docs/a", "newText": ""},
        {"type": "diff", "path": "src/a", "newText": ""},
    ]
    assert decided(policy, {"kind": "edit", "content": diffs[:1]}, workspace) is Decision.ALLOW
    assert decided(policy, {"kind": "edit", "content": diffs}, workspace) is Decision.ASK
    assert decided(policy, edit("docs/a") | {"content": diffs[1:]}, workspace) is Decision.ASK


def test_a_rule_with_a_path_is_not_for_calls_without_one(workspace: Workspace) -> None:
    policy = Policy(rules=(rule("allow", path="**"),))
    for call in ({"kind": "edit"}, {"kind": "edit", "locations": []}, {"kind": "edit", "locations": None}):
        assert decided(policy, call, workspace) is Decision.ASK


@pytest.mark.parametrize("kind", [None, "new_kind", 7, {}, []])
def test_a_kind_that_is_not_known_is_other(workspace: Workspace, kind: Any) -> None:
    assert decided(Policy(rules=(rule("allow", "other"),)), {"kind": kind}, workspace) is Decision.ALLOW


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["path", "type", "x"]), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["kind", "locations", "content", "title"]), JSON))
def test_no_shape_of_a_call_breaks_the_policy(call: dict[str, Any]) -> None:
    policy = Policy(default=Decision.ALLOW, rules=(rule("allow", "edit", "**"), rule("deny", path="x/**")))
    assert decided(policy, call, Workspace(Path.cwd())) in set(Decision)


def test_rules_are_read_from_the_settings() -> None:
    text = """
        [[rules]]
        kind = "edit"
        path = "docs/**"
        decision = "allow"
        [[rules]]
        kind = "execute"
        decision = "deny"
    """
    rules = msgspec.convert(tomllib.loads(text)["rules"], tuple[Rule, ...])
    assert rules == (
        Rule(decision=Decision.ALLOW, kind=ToolKind.EDIT, path="docs/**"),
        Rule(decision=Decision.DENY, kind=ToolKind.EXECUTE),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "edit"},
        {"decision": "allow"},
        {"decision": "maybe", "kind": "edit"},
        {"decision": "allow", "kind": "edti"},
        {"decision": "allow", "path": "/etc/**"},
        {"decision": "allow", "path": "docs/../secret"},
        {"decision": "allow", "path": ""},
        {"decision": "allow", "kind": "edit", "paths": "docs/**"},
    ],
    ids=str,
)
def test_a_wrong_rule_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Rule)
