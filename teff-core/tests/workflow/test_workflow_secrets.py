"""Secrets that stand in a workflow file."""

from __future__ import annotations

import pytest

from teff.workflow import loads
from teff.workflow.secrets import looks_secret

# Put together here, so that nobody who looks for secrets stops at this file.
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"sk-{LETTERS}", "an API key"),
        (f"sk-ant-api03-{LETTERS}", "an API key"),
        (f"sk-proj-{LETTERS}_{LETTERS}", "an API key"),
        (f"gsk_{LETTERS}", "an API key"),
        (f"hf_{LETTERS}", "an API key"),
        (f"use the key sk-{LETTERS}, please", "an API key"),
        (f"ghp_{LETTERS}", "an access token"),
        (f"github_pat_{LETTERS}", "an access token"),
        (f"xoxb-1234567890-{LETTERS}", "an access token"),
        ("AKIA" + "QWERTY1234567890", "an access key"),
        (f"sk_live_{LETTERS}", "a payment key"),
        (f"123456789:{LETTERS}abcdefg", "a bot token"),
        (f"Bearer {LETTERS}", "a bearer token"),
        (f"Authorization: bearer {LETTERS}", "a bearer token"),
        (f"eyJ{LETTERS}.eyJ{LETTERS}.{LETTERS}", "a signed token"),
        ("-----BEGIN RSA " + "PRIVATE KEY-----", "a private key"),
        ("postgres://ada:lovelace1@db/desk", "an address with a password"),
    ],
)
def test_what_looks_like_a_key(text: str, kind: str) -> None:
    assert looks_secret(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "smollm2-135m-instruct",
        "gpt-4o-mini-2024-07-18",
        "claude-sonnet-4-20250514",
        "sk-learn",
        "sk-learn-based-classification-of-texts",
        "risk-assessment-of-the-year-2024",
        "https://api.example.com/v1/chat?key=name",
        "http://localhost:11434/v1",
        "https://user@example.com/a:b@c",
        "postgres://ada:${DB_PASSWORD}@db/desk",
        "postgres://user:password@host/db",
        "postgres://user:<password>@host/db",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "Bearer ${TOKEN}",
        "Bearer ",
        "The bearer of this letter is 33",
        "bearer token authentication is used",
        "10:30",
        "sk-${KEY}",
        "",
    ],
)
def test_what_is_no_key(text: str) -> None:
    assert looks_secret(text) == ""


@pytest.mark.parametrize(
    ("key", "text", "kind"),
    [
        ("password", "hunter2", "a password"),
        ("db_password", "Tr0ub4dor&3", "a password"),
        ("client_secret", LETTERS, "a password"),
        ("api_key", LETTERS, "a token"),
        ("apiKey", LETTERS, "a token"),
        ("access-token", LETTERS, "a token"),
        ("password", "12345678", "a password"),
    ],
)
def test_a_name_says_that_a_value_is_secret(key: str, text: str, kind: str) -> None:
    assert looks_secret(text, key=key) == kind
    assert looks_secret(text, key="output_key") == ""
    assert looks_secret(text, key="max_tokens") == ""


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("password", "text"),
        ("password", "append"),
        ("password", "user_password"),
        ("password", "${DB_PASSWORD}"),
        ("secret", "The secret of chapter 12"),
        ("api_key_env", "OPENAI_API_KEY_2"),
        ("api_key", "ollama"),
        ("api_key", "not-needed"),
        ("token", "next_token_of_the_reply"),
        ("token", "aaaaaaaaaaaaaaaaaaaaa1"),
        ("tokens", LETTERS),
        ("password", "{password2}"),
    ],
)
def test_a_name_alone_makes_no_secret(key: str, text: str) -> None:
    assert looks_secret(text, key=key) == ""


def secrets_of(text: str, **variables: str) -> list[tuple[str, int | None, str]]:
    findings = loads(text, environment=variables).check()
    return [
        (finding.severity, finding.line, str(finding))
        for finding in findings
        if finding.code == "secret-in-file"
    ]


def test_a_finding_has_its_place_and_not_the_secret() -> None:
    text = f"""
state:
  initial:
    note: hello
    api_token: {LETTERS}
steps:
  - transform: {{action: render, template: "the key is sk-{LETTERS}", output_key: output}}
"""
    found = secrets_of(text)
    assert [(severity, line) for severity, line, _ in found] == [("warning", 5), ("warning", 7)]
    assert "state.initial.api_token" in found[0][2]
    assert "${" in found[0][2]
    assert not any(LETTERS in message for _, _, message in found)


def test_what_a_reference_brings_is_not_in_the_file() -> None:
    text = """
state: {{initial: {{api_token: "{value}"}}}}
steps: [transform: {{action: now}}]
"""
    assert secrets_of(text.format(value="${TOKEN}"), TOKEN=LETTERS) == []
    assert secrets_of(text.format(value="${TOKEN:-none}"), TOKEN=LETTERS) == []
    assert len(secrets_of(text.format(value=f"${{TOKEN:-{LETTERS}}}"))) == 1
    assert len(secrets_of(text.format(value=f"{LETTERS}${{TOKEN}}"), TOKEN="tail")) == 1


def test_an_alias_is_one_finding() -> None:
    text = f"""
state: {{initial: {{token: &it {LETTERS}, auth_token: *it}}}}
steps: [transform: {{action: now}}]
"""
    assert len(secrets_of(text)) <= 2
