"""`holdfast token`, as a person at a terminal runs it."""

import json

import pytest

from tests.cli.command import Cli


def test_a_listed_id_is_whole_and_can_be_revoked(cli: Cli) -> None:
    assert cli("token", "create", "--user", "ada", "--label", "the laptop on the desk").returncode == 0
    (token,) = json.loads(cli("token", "list", "--json").stdout)
    shown = cli("token", "list").stdout.splitlines()[-1].split()[0]
    assert shown == token["id"]
    assert "opens nothing any more" in cli("token", "revoke", shown).stdout


@pytest.mark.parametrize("days", ["-5", "1e12"])
def test_a_token_is_good_for_some_time_that_is_to_come(cli: Cli, days: str) -> None:
    refused = cli("token", "create", "--user", "ada", "--days", days)
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert json.loads(cli("token", "list", "--json").stdout) == []
