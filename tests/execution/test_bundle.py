"""File bundles in answers: read in all their forms, and refused when they are wrong or hostile."""

import json
from typing import Any

import msgspec
import pytest

from holdfast.execution.bundle import (
    BundleRefused,
    FileBundle,
    FileChange,
    Operation,
    Patch,
    PatchLimit,
    find_bundle,
    parse_bundle,
)

CONTENT = {"path": "a.py", "content": "x = 1\n"}


def answer(bundle: Any, tag: str = "json") -> str:
    return f"Here is the change:\n\n```{tag}\n{json.dumps(bundle, indent=2)}\n```\n\nThat is all."


def refused(bundle: Any) -> str:
    with pytest.raises(BundleRefused) as refusal:
        parse_bundle(answer(bundle))
    assert find_bundle(answer(bundle)) is None
    return str(refusal.value)


@pytest.mark.parametrize("tag", ["json", "aptix-json", "JSON", "json title=change.json"])
def test_a_bundle_is_found_in_its_fence(tag: str) -> None:
    bundle = parse_bundle(answer({"root": ".", "files": [CONTENT]}, tag))
    assert bundle == FileBundle(files=(FileChange(path="a.py", content="x = 1\n"),))


def test_every_operation_is_read() -> None:
    files = [
        {"path": "a", "operation": "create", "content": ""},
        {"path": "b", "operation": "replace", "content": "b", "originalSha256": "AB" * 32},
        {"path": "c", "operation": "delete"},
        {"path": "d", "operation": "patch", "patches": [{"find": "x", "replace": "", "limit": "all"}]},
        {"path": "e", "operation": "gitPatch", "content": "@@ -1 +1 @@\n-a\n+b\n"},
    ]
    bundle = parse_bundle(answer({"root": "src/app", "files": files}))
    assert bundle is not None
    assert bundle.root == "src/app"
    assert [file.operation for file in bundle.files] == list(Operation)
    assert bundle.files[1].original_sha256 == "ab" * 32
    assert bundle.files[3].patches == (Patch(find="x", replace="", limit=PatchLimit.ALL),)


def test_the_patch_forms_become_files_with_patches() -> None:
    flat = {"patches": [
        {"path": "a", "find": "1", "replace": "2"},
        {"path": "b", "find": "x", "replace": "y", "limit": "all"},
        {"path": "a", "find": "3", "replace": "4", "originalSha256": "00" * 32},
    ]}  # fmt: skip
    nested = {"patches": [
        {"path": "a", "replacements": [{"find": "1", "replace": "2"}, {"find": "3", "replace": "4"}],
         "originalSha256": "00" * 32},
        {"path": "b", "replacements": [{"find": "x", "replace": "y", "limit": "all"}]},
    ]}  # fmt: skip
    bundle = parse_bundle(answer(flat))
    assert bundle is not None
    assert bundle == parse_bundle(answer(nested))
    assert [(file.path, len(file.patches)) for file in bundle.files] == [("a", 2), ("b", 1)]


def test_on_the_wire_names_are_camel_case_and_what_is_absent_is_left_out() -> None:
    bundle = parse_bundle(answer({"files": [CONTENT | {"originalSha256": "00" * 32}]}))
    assert json.loads(msgspec.json.encode(bundle)) == {
        "root": ".",
        "files": [CONTENT | {"originalSha256": "00" * 32}],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no fence at all",
        '{"files": [{"path": "a", "content": "unfenced"}]}',
        "```python\nprint(1)\n```",
        '```json\n{"name": "package"}\n```',
        '```json\n{"files": ["a.py", "b.py"]}\n```',
        '```json\n{"files": []}\n```',
        "```json\n[1, 2]\n```",
        "```json\n{not json\n```",
        '````markdown\n```json\n{"files": [{"path": "a", "content": "an example"}]}\n```\n````',
    ],
)
def test_an_answer_without_a_bundle_has_none(text: str) -> None:
    assert parse_bundle(text) is None


@pytest.mark.parametrize("content", ["cut in the mid", "half a pair: \ud800"])
def test_our_own_tag_with_something_else_in_it_is_refused(content: str) -> None:
    whole = answer({"files": [{"path": "a.py", "content": content}]}, "aptix-json")
    with pytest.raises(BundleRefused, match="cut"):
        parse_bundle(whole if "pair" in content else whole.partition("mid")[0])


def test_two_bundles_are_refused_because_nobody_knows_which_is_meant() -> None:
    with pytest.raises(BundleRefused, match="2 file bundles"):
        parse_bundle(answer({"files": [CONTENT]}) + answer({"files": [CONTENT]}))


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a/./b", "a//b", "a/", ".", "..", "a\\b",
        "..\\x", "C:/x", "c:x", "\\\\server\\x", "a\0b", "a\nb", "a\x1b[31m", ".git/config", "a/.git/hooks/x",
        ".GIT/config", ".git./config", "git~1/config", "x" * 2000, "x" * 300, "ü" * 200,
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    refused({"files": [{"path": path, "content": "x"}]})
    refused({"patches": [{"path": path, "find": "x", "replace": "y"}]})
    if path != ".":
        refused({"root": path, "files": [CONTENT]})


@pytest.mark.parametrize(
    "path", ["a", ".gitignore", "a.git/x", ".github/workflows/x.yml", "with space/ü.py", "a..b"]
)
def test_an_odd_path_that_stays_inside_is_taken(path: str) -> None:
    bundle = parse_bundle(answer({"files": [{"path": path, "content": "x"}]}))
    assert bundle is not None
    assert bundle.files[0].path == path


@pytest.mark.parametrize(
    "entry",
    [
        {"operation": "create"},
        {"operation": "replace"},
        {"operation": "gitPatch"},
        {},
        {"operation": "create", "content": "x", "patches": [{"find": "a", "replace": "b"}]},
        {"operation": "delete", "content": "x"},
        {"operation": "delete", "patches": [{"find": "a", "replace": "b"}]},
        {"operation": "patch"},
        {"operation": "patch", "patches": []},
        {"operation": "patch", "content": "x", "patches": [{"find": "a", "replace": "b"}]},
        {"operation": "patch", "patches": [{"find": "", "replace": "b"}]},
        {"operation": "patch", "patches": [{"find": "a"}]},
        {"operation": "patch", "patches": [{"find": "a", "replace": "b", "limit": "twice"}]},
        {"operation": "rename", "content": "x"},
        {"content": 1},
        {"content": "x", "originalSha256": "short"},
    ],
)
def test_an_operation_without_what_it_needs_is_refused(entry: dict[str, Any]) -> None:
    assert refused({"files": [{"path": "a.py"} | entry]}).startswith("The file bundle is wrong")


@pytest.mark.parametrize(
    "bundle",
    [
        {"files": [CONTENT], "patches": [{"path": "a", "find": "x", "replace": "y"}]},
        {"files": [CONTENT, CONTENT]},
        {"files": [{"path": f"f{n}", "content": ""} for n in range(1001)]},
        {"patches": [{"path": "a", "find": "x"}]},
        {"patches": [{"path": "a"}]},
        {"patches": [{"path": "a", "find": "x", "replace": "y", "replacements": []}]},
        {"patches": [
            {"path": "a", "find": "x", "replace": "y", "originalSha256": "00" * 32},
            {"path": "a", "find": "x", "replace": "y", "originalSha256": "11" * 32},
        ]},
    ],
)  # fmt: skip
def test_a_bundle_that_contradicts_itself_is_refused(bundle: dict[str, Any]) -> None:
    refused(bundle)


def test_a_file_named_twice_is_refused_although_patches_of_one_file_are_not() -> None:
    assert "twice" in refused({"files": [CONTENT, CONTENT]})


def test_deep_and_long_answers_end_quickly() -> None:
    assert find_bundle("```json\n" + "[" * 200_000 + "\n```") is None
    assert find_bundle("```json\n" * 20_000) is None
    assert find_bundle("`" * 200_000 + "\n" + "~" * 200_000) is None
