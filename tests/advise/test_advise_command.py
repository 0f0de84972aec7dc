"""`lean-convert advise`: its findings in real scripts, its output formats and its exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from transformer import cli
from transformer.advise import advise
from transformer.commands.advise import NOTHING, ON_CPU, ONLY_RL

pytestmark = pytest.mark.usefixtures("converted_once")
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CONVERTED = sorted((FIXTURES / "converted").glob("*.py"))
LEFT = {
    "q_lambda.py": {"LA101"},  # the host draws random numbers, and must go on drawing the same ones
    "several_files.py": {"LA205"},  # the memory of its own file is a list of steps
}
"""Golden conversions that still contain something advice finds, by code; no transform rewrites it."""
QUIET = """\
import torch

net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters())
for x in batches:
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""
TRAINS_ELSEWHERE = "from stable_baselines3 import PPO\nPPO('MlpPolicy', env).learn(total_timesteps=10_000)\n"


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.main, ["advise", *map(str, args)], input=stdin)


def codes(script: str) -> list[tuple[int, str, str | None]]:
    found = advise((FIXTURES / script).read_text(encoding="utf-8"))
    return [(f.line, f.code, f.transform) for f in found]


def test_a_ppo_script() -> None:
    assert codes("envpool_cnn.py") == [
        (128, "LA301", "compile"),
        (202, "LA102", "transfers"),
        (202, "LA102", "transfers"),
        (203, "LA102", "transfers"),
        (205, "LA005", "transfers"),
        (250, "LA001", "deferred-sync"),
        (252, "LA203", "shuffle"),
    ]


@pytest.mark.parametrize("script", ["a2c_online.py"])
def test_scripts_that_are_not_converted(script: str) -> None:
    found = codes(f"refused/{script}")
    assert "LA102" in {code for _, code, _ in found}
    assert {transform for _, _, transform in found} == {None}


@pytest.mark.parametrize("script", CONVERTED, ids=lambda p: p.name)
def test_conversions_need_little_advice(script: Path) -> None:
    left = {f.code for f in advise(script.read_text(encoding="utf-8"))} - {"LA301"}
    assert left == LEFT.get(script.name, set())


@pytest.mark.slow
def test_a_transform_is_named_only_where_it_does_it() -> None:
    source = (FIXTURES / "target_kl.py").read_text(encoding="utf-8")
    kept = source.replace("        clipfracs = []\n", "").replace(
        "    for iteration", "    clipfracs = []\n    for iteration"
    )
    assert kept != source  # a list that an f-string prints after all iterations must stay a list of numbers
    found = [[f.transform for f in advise(text) if f.code == "LA001"] for text in (source, kept)]
    assert found == [["deferred-sync"], [None]]


def test_text_has_place_advice_and_transform() -> None:
    result = run(FIXTURES / "envpool_cnn.py")
    assert result.exit_code == 0
    assert f"{FIXTURES / 'envpool_cnn.py'}:205:27: LA005 the loop reads next_done" in result.stdout
    assert "The transform deferred-sync does it." in result.stdout
    assert result.stdout.count("LA102") == 1 and "(3 places)" in result.stdout
    assert [result.stdout.count(f" {line} | ") for line in (202, 203)] == [2, 1]
    assert "7 places, lean-convert rewrites 7 of them" in result.stdout


def test_json_has_all_of_several_scripts(tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.py"
    quiet.write_text(QUIET)
    report = json.loads(run("--format", "json", FIXTURES / "envpool_cnn.py", quiet).stdout)
    one, other = report["scripts"]
    assert (one["script"], other["script"]) == (str(FIXTURES / "envpool_cnn.py"), str(quiet))
    assert other["advice"] == []
    assert {"code", "weight", "line", "column", "title", "message", "reason", "instead", "transform"} == set(
        one["advice"][0]
    )
    places = [(a["line"], a["column"]) for a in one["advice"]]
    assert places == sorted(places)


def test_standard_input() -> None:
    result = run("-", stdin=(FIXTURES / "envpool_cnn.py").read_bytes())
    assert "<stdin>:205:27: LA005" in result.stdout


@pytest.mark.parametrize("stepped", [True, False])
def test_no_advice(stepped: bool) -> None:
    code = QUIET.replace("(3, 1)", "(3, 1, device='cuda')") + ("obs = env.step(action)\n" if stepped else "")
    for encoding in ("utf-8", "utf-8-sig"):
        result = run("-", "--strict", stdin=code.encode(encoding))
        assert (result.exit_code, result.stdout) == (0, f"{NOTHING if stepped else ONLY_RL}\n")


def test_of_a_script_on_the_cpu_it_is_said_that_reads_wait_for_nothing() -> None:
    read = QUIET.replace(".backward()", ".backward()\n    print(net(x).mean().item())")
    for text, on_cpu in ((read, True), (read.replace("(3, 1)", "(3, 1).cuda()"), False)):
        report = run("-", stdin=text.encode()).stdout
        assert (f"<stdin>: {ON_CPU}" in report, "LA001" in report) == (on_cpu, not on_cpu)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (TRAINS_ELSEWHERE, "<stdin>:1:1: LC004 Stable-Baselines3 trains here"),
        ("import torch\nx = torch.ones(3)\n", "<stdin>:1:1: LC004 no training loop was found"),
        ("import torch\nfor x in data:\n    print(x.item())\n", "<stdin>:1:1: LC004 no training loop was found"),
        ("import torch\nimport flax\n", "<stdin>:2:1: LC003 the script imports flax: JAX compiles"),
    ],
)
def test_a_script_that_trains_nothing_is_not_said_to_be_fast(script: str, said: str) -> None:
    result = run("-", "--strict", stdin=script.encode())
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(said)
    (one,) = json.loads(run("-", "--format", "json", stdin=script.encode()).stdout)["scripts"]
    assert [d["code"] for d in one["diagnostics"]] == [said.split()[1]]


def test_strict_fails_where_there_is_advice() -> None:
    assert run(FIXTURES / "envpool_cnn.py", "--strict").exit_code == 1


@pytest.mark.parametrize("data", [b"x = (", b"", b"\0", b"\xff\xfe"])
def test_what_is_no_python(data: bytes) -> None:
    result = run("-", stdin=data)
    assert result.exit_code == 1
    assert "LC001" in result.stderr


def test_a_missing_file(tmp_path: Path) -> None:
    assert run(tmp_path / "none.py").exit_code == 2
