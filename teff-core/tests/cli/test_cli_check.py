"""``teff check``: what it prints, and how it ends."""

from __future__ import annotations

import json

from teff.workflow import CODES

GOOD = "steps: [transform: {action: now}]"
DOUBTFUL = """
steps:
  - transform: {action: now, output_key: kind}
  - branch:
      key: knid
      cases: [{value: a, steps: [{transform: {action: now}}]}]
"""
BAD = "steps: [llm: {prompt: hi, provider: olama, model: m}]"


def report(done):
    said = json.loads(done.out)
    assert set(said) == {"file", "errors", "warnings", "findings"}
    assert said["errors"] + said["warnings"] == len(said["findings"])
    keys = {"severity", "code", "message", "hint", "file", "line", "column", "node"}
    for finding in said["findings"]:
        assert set(finding) == keys
        assert finding["code"] in CODES
    assert done.err == ""
    return said


def test_json_of_a_clean_file(teff, flow):
    done = teff("check", "--json", flow(GOOD))
    assert done.code == 0
    assert report(done) == {"file": "flow.yaml", "errors": 0, "warnings": 0, "findings": []}


def test_json_of_warnings_ends_with_0(teff, flow):
    done = teff("check", flow(DOUBTFUL), "--json")
    assert done.code == 0
    said = report(done)
    assert (said["errors"], said["warnings"]) == (0, 2)
    found = {finding["code"]: finding for finding in said["findings"]}
    assert set(found) == {"missing-default", "unwritten-condition-key"}
    for finding in found.values():
        assert finding["severity"] == "warning"
        assert (finding["file"], finding["line"], finding["column"]) == ("flow.yaml", 3, 5)
        assert finding["node"] == "transform_1"
        assert finding["hint"]


def test_json_of_an_error_ends_with_2(teff, flow):
    done = teff("check", "--json", flow(BAD))
    assert done.code == 2
    (finding,) = report(done)["findings"]
    assert (finding["code"], finding["line"]) == ("unknown-name", 1)


def test_json_of_a_file_that_cannot_be_read(teff, flow):
    done = teff("check", "--json", flow("stepz: []"))
    assert done.code == 2
    (finding,) = report(done)["findings"]
    assert finding["code"] == "invalid-file"
    assert (finding["line"], finding["column"]) == (1, 1)
    assert finding["hint"] == "Did you mean 'steps'?"
    done = teff("check", "--json", "none.yaml")
    assert done.code == 2
    assert "none.yaml" in report(done)["findings"][0]["message"]


def test_warnings_are_lines_for_people(teff, flow):
    done = teff("check", flow(DOUBTFUL))
    assert done.code == 0
    assert done.out == "flow.yaml: no errors, warnings: 2\n"
    assert done.err.count("warning: flow.yaml:3:5: ") == 2
    assert "Did you mean 'kind'?" in done.err


def test_a_secret_is_not_shown(teff, flow):
    key = "sk-" + "aB3dE6gH9jK2mN5pQ8sT"
    text = f"{GOOD}\nstate: {{initial: {{note: {key}}}}}"
    for arguments in ([], ["--json"]):
        done = teff("check", flow(text), *arguments)
        assert done.code == 0
        assert "looks like an API key" in done.out + done.err
        assert key not in done.out + done.err
