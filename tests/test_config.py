"""Settings that cannot be meant are refused in a sentence; none is left out in silence."""

from pathlib import Path

import pytest
from platformdirs import user_data_path

from holdfast.config import load_settings
from holdfast.errors import InvalidInput
from holdfast.settings_files import CHANGED, NOT_TRUSTED, settings_files, trusted_files
from tests.settings import configure


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b"model = ", "The settings in {file} cannot be read: Invalid value"),
        (b'model = "\xff"', "The settings in {file} cannot be read: 'utf-8' codec"),
        (b'modle = "x"', "There is no setting 'modle'; `holdfast doctor` shows all."),
        (b"[retreival]", "There is no setting 'retreival'; "),
        (b"[retrieval]\nurl = 1", "The setting 'retrieval.url' is wrong: "),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, written: bytes, sentence: str) -> None:
    file = configure(tmp_path, written)
    with pytest.raises(InvalidInput) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence.format(file=file))


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, 'model = "demo"')
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


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("HOLDFAST_STORR", "There is no setting HOLDFAST_STORR; did you mean HOLDFAST_STORE?"),
        ("HOLDFAST_SERVER_PROT", "There is no setting 'server.prot'; "),
        ("holdfast_data", "There is no setting holdfast_data; did you mean HOLDFAST_DATA_DIR?"),
        ("HOLDFAST_X", "There is no setting HOLDFAST_X; "),
    ],
)
@pytest.mark.req("SEC-24")
def test_a_variable_that_names_no_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(InvalidInput) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence)


def test_a_variable_that_a_setting_names_is_no_setting_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEY_OF_OURS", "k")
    configure(tmp_path, '[providers.ours]\napi_key_env = "HOLDFAST_KEY_OF_OURS"\n')
    assert load_settings().providers["ours"].api_key_env == "HOLDFAST_KEY_OF_OURS"


@pytest.mark.req("SEC-14")
def test_a_file_in_the_working_directory_counts_while_its_content_is_trusted(tmp_path: Path) -> None:
    configure(tmp_path, 'model = "mine"\n[server]\nport = 1\n')
    local = tmp_path / "holdfast.toml"
    local.write_text('model = "theirs"\n[server]\nhost = "::1"\n')
    assert (load_settings().model, load_settings().server.host) == ("mine", "127.0.0.1")
    assert settings_files()[1:] == (local, NOT_TRUSTED)

    trusted_files().add(local, local.read_bytes())
    settings = load_settings()
    assert (settings.model, settings.server.host, settings.server.port) == ("theirs", "::1", 1)

    local.write_text('model = "others"\n')
    assert load_settings().model == "mine"
    assert settings_files()[1:] == (local, CHANGED)


@pytest.mark.req("SEC-14")
def test_what_a_file_that_is_not_trusted_says_is_not_even_parsed(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_bytes(b"model = \xff")
    assert load_settings().model is None


def test_a_file_that_is_named_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, 'model = "mine"')
    local = tmp_path / "holdfast.toml"
    local.write_text('durability = "normal"')
    monkeypatch.setenv("HOLDFAST_CONFIG", "holdfast.toml")
    assert (load_settings().model, load_settings().durability) == (None, "normal")
    assert settings_files().ignored is None


def test_a_list_of_trusted_files_that_is_damaged_is_named(tmp_path: Path) -> None:
    configure(tmp_path, "").with_name("trusted.json").write_text("[")
    (tmp_path / "holdfast.toml").touch()
    with pytest.raises(InvalidInput, match=r"trusted\.json, cannot be read: .* Delete it to trust none"):
        load_settings()
