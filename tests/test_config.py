"""Settings that cannot be meant are refused in a sentence; none is left out in silence."""

from pathlib import Path

import pytest
from platformdirs import user_data_path

from holdfast.config import load_settings
from holdfast.errors import InvalidInput


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b"model = ", "The settings in holdfast.toml cannot be read: Invalid value"),
        (b'model = "\xff"', "The settings in holdfast.toml cannot be read: 'utf-8' codec"),
        (b'modle = "x"', "There is no setting 'modle'; `holdfast doctor` shows all."),
        (b"[retreival]", "There is no setting 'retreival'; "),
        (b"[retrieval]\nurl = 1", "The setting 'retrieval.url' is wrong: "),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(written: bytes, sentence: str) -> None:
    Path("holdfast.toml").write_bytes(written)
    with pytest.raises(InvalidInput) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence)


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("holdfast.toml").write_text('model = "demo"')
    for name in ("CONFIG", "MODEL", "STORE", "DATA_DIR", "SERVER_PUBLIC_URL", "SERVER_PORT"):
        monkeypatch.setenv(f"HOLDFAST_{name}", "")
    settings = load_settings()
    assert (settings.model, settings.store, settings.data_dir) == ("demo", None, user_data_path("holdfast"))
    assert (settings.server.public_url, settings.server.port) == (None, 4747)


def test_a_tilde_is_the_home_of_who_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", "~/data")
    assert load_settings().data_dir == Path.home() / "data"


def test_a_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONFIG", "elsewhere.toml")
    with pytest.raises(InvalidInput, match=r"HOLDFAST_CONFIG names elsewhere\.toml"):
        load_settings()
    Path("elsewhere.toml").write_text('model = "demo"')
    assert load_settings().model == "demo"


@pytest.mark.parametrize(
    ("variable", "field"), [("HOLDFAST_SERVER_HOSTS", "server"), ("HOLDFAST_CONTEXTS", "contexts")]
)
def test_a_list_in_a_variable_is_json(monkeypatch: pytest.MonkeyPatch, variable: str, field: str) -> None:
    monkeypatch.setenv(variable, "example.org")
    with pytest.raises(InvalidInput, match=f"{field}.*written as JSON"):
        load_settings()
