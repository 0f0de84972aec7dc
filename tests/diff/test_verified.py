import json

import pytest

from transformer.diff.verified import NotAVerification, read_verified

REPORT = {
    "verdict": "different",
    "summary": "DIFFERENT: compiled",
    "first_failing_check": "compiled",
    "arguments": [],
    "iterations": 3,
    "versions": {"torch": "2.13.0", "cuda": False},
    "checks": [
        {
            "name": "flags-off",
            "status": "equal",
            "reason": None,
            "findings": [],
            "compared": [
                {
                    "what": "parameter",
                    "values": 4096,
                    "largest_difference": 0.0,
                    "where": None,
                    "allowed": None,
                    "equal": True,
                }
            ],
        },
        {
            "name": "compiled",
            "status": "different",
            "reason": "more iterations are needed",
            "findings": ["update, call 3: <loss> is 0.5 away"],
            "compared": [
                {
                    "what": "update: output, float32",
                    "values": 12,
                    "largest_difference": "inf",
                    "where": "call 3",
                    "allowed": 1e-05,
                    "equal": False,
                },
                {
                    "what": "file",
                    "values": 1,
                    "largest_difference": None,
                    "where": "x",
                    "allowed": None,
                    "equal": False,
                },
            ],
        },
        {"name": "cuda-graphs", "status": "not run", "reason": "no CUDA device", "findings": [], "compared": []},
    ],
    "seeds": {"flags_off": [9.0, 8.0], "flags_on": [9.5, 8.5], "p_value": 0.75, "alike": True},
    "not_exercised": ["line 9: if done was never true"],
    "notes": ["Both runs were served the same permutations."],
}


def test_a_report_is_read_with_its_figures():
    found = read_verified(json.dumps(REPORT))
    assert (found.verdict, found.iterations, found.versions) == (
        "different",
        3,
        {"torch": "2.13.0", "cuda": "not available"},
    )
    equal, different, idle = found.checks
    assert (equal.compared[0].largest_difference, equal.compared[0].allowed, equal.compared[0].equal) == (
        "0",
        "none",
        True,
    )
    assert [c.largest_difference for c in different.compared] == ["inf", "different"]
    assert different.compared[0].allowed == "1e-05"
    assert found.notes[1] == "Trained to the end with 2 seeds, the returns are alike (p = 0.750)."
    assert (idle.status, idle.reason) == ("not run", "no CUDA device")
    assert (found.summary, found.not_exercised) == ("DIFFERENT: compiled", ("line 9: if done was never true",))


def test_a_report_of_an_earlier_version_has_no_summary():
    earlier = {key: value for key, value in REPORT.items() if key not in ("summary", "not_exercised")}
    found = read_verified(json.dumps(earlier))
    assert (found.verdict, found.summary, found.not_exercised) == ("different", "", ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not the output"),
        ("{}", "not the output"),
        ('{"verdict": "equal", "checks": [{"name": "x"}]}', "not the output"),
        ('{"verdict": "could not run", "error": "no such file"}', "could not run: no such file"),
    ],
)
def test_anything_else_is_named(text, reason):
    with pytest.raises(NotAVerification, match=reason):
        read_verified(text)
