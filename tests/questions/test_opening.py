"""The settings of question sets: where they come from, and that the box obeys them."""

from pathlib import Path

import pytest

from holdfast.config import load_settings
from holdfast.errors import InvalidInput
from holdfast.model.question import LIMIT
from holdfast.questions import default_directory, open_box
from holdfast.questions.errors import QuestionsTimedOut, TooManyQuestionSets
from tests.questions.sets import NEW
from tests.settings import configure


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory without a file of settings, and without a word in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    for name in ("AUQ_SESSION_DIR", "HOLDFAST_CONFIG", "HOLDFAST_QUESTIONS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


def test_without_any_settings_the_sets_are_where_the_auq_programs_keep_theirs() -> None:
    settings = load_settings().questions
    assert open_box(settings).directory == default_directory()
    assert (settings.limit, settings.retention_days, settings.timeout_seconds) == (LIMIT, 7, 0)


def test_the_directory_comes_from_our_name_then_the_auq_name_then_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, '[questions]\ndirectory = "of-file"\nlimit = 7\n')
    assert open_box(load_settings().questions).directory == tmp_path / "of-file"
    monkeypatch.setenv("AUQ_SESSION_DIR", "~/of-auq")
    assert open_box(load_settings().questions).directory == Path.home() / "of-auq"
    monkeypatch.setenv("HOLDFAST_QUESTIONS_DIRECTORY", "/ours")
    assert open_box(load_settings().questions).directory == Path("/ours")
    assert load_settings().questions.limit == 7  # the rest of the file holds all the same


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("limit = 0", "The setting 'questions.limit' is wrong"),
        ("timeout_seconds = -1", "The setting 'questions.timeout_seconds' is wrong"),
        ("limits = 5", "There is no setting 'questions.limits'"),
    ],
)
def test_a_wrong_or_misspelt_setting_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    configure(tmp_path, f"[questions]\n{line}\n")
    with pytest.raises(InvalidInput, match=sentence):
        load_settings()


async def test_the_box_obeys_them(tmp_path: Path) -> None:
    given = {"directory": tmp_path / "sets", "limit": 1, "timeout_seconds": 0.01}
    box = open_box(load_settings(questions=given).questions)
    asked = await box.ask(NEW)
    with pytest.raises(TooManyQuestionSets):
        await box.ask(NEW)
    with pytest.raises(QuestionsTimedOut):
        await box.wait(asked.id)
