"""Transforms of training on stored steps: what they make of a small script, when they leave it alone, and why."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from agent_script import THAW, agent_script
from cases import turn
from family import STANDINS
from forking import in_forks, preload
from replay_script import PARTS as PARTS_OF_REPLAY
from replay_script import changed, from_library, replay
from scripts import PARTS, script

from transformer import Applied, Skipped, convert
from transformer.verify import compare, record


def made(transform: str, source: str, *also: str) -> str:
    """The lines that a transform adds to a script."""
    step = turn(transform, source, also)
    assert isinstance(step.outcome, Applied), step.outcome
    before = step.before.splitlines()
    return "\n".join(line.strip() for line in step.after.splitlines() if line not in before)


def reason(transform: str, source: str, *also: str) -> str:
    """Why a transform leaves a script as it is."""
    step = turn(transform, source, also)
    assert isinstance(step.outcome, Skipped), step.after
    return step.outcome.reason


def test_acting() -> None:
    step = turn("acting", replay())
    assert isinstance(step.outcome, Applied), step.outcome
    under = "            with torch.no_grad():\n                q_values = q_network(torch.Tensor(obs).to(device))\n"
    assert step.after == step.before.replace("            q_values = q_network(torch.Tensor(obs).to(device))\n", under)


NET = "nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))"
HELPER = """
    def {name}:
        return {made}

"""


def network(value: str, helper: str = "") -> dict[str, str]:
    """The network with another value in place of its layers; `helper` goes above the class."""
    cls = textwrap.dedent(changed("network", NET, value))
    return {"network": textwrap.dedent(helper) + cls}


IMAGES = "nn.Sequential(nn.Conv2d(1, 4, 1, stride=1), nn.Flatten(), nn.Linear(8, 2))"


@pytest.mark.parametrize(
    "parts",
    [
        network(IMAGES),
        network(NET.replace("8, 2", "8, 2, bias=True")),
        network("layers(8)", HELPER.format(name="layers(n)", made=NET.replace("8", "n"))),
        network("nn.Sequential(init(nn.Linear(2, 2)))", HELPER.format(name="init(layer)", made="layer")),
    ],
    ids=["convolutions", "a bias that is asked for", "layers of a function", "layers that a function is given"],
)
def test_acting_with_layers(parts: dict[str, str]) -> None:
    step = turn("acting", replay(**parts))
    assert isinstance(step.outcome, Applied), step.outcome


@pytest.mark.parametrize(
    ("shown", "applies"),
    [
        ("torch.argmax(q_values, dim=1)", True),
        ("torch.detach(q_values)", True),
        ("torch.isnan(q_values)", True),
        ("torch.max(q_values, 1)[0]", False),
        ("torch.mean(q_values, 1)", False),
        ("torch.argmax(dim=1, input=q_values)", False),  # no positional argument: not looked into
        ("numpy.argmax(q_values)", False),
    ],
)
def test_acting_where_a_function_makes_a_tensor_without_a_graph(shown: str, applies: bool) -> None:
    act = f"q_values = q_network(torch.Tensor(obs).to(device))\nprint({shown})\n"
    step = turn("acting", replay(act=f"{act}actions = 2 * torch.argmax(q_values, 1).numpy() - 1"))
    assert isinstance(step.outcome, Applied) is applies, step.outcome


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (network(IMAGES.replace("stride=1", "groups=1")), "makes nn.Conv2d()"),
        (network(IMAGES.replace("stride=1", "**{}")), "makes nn.Conv2d()"),
        (
            network("layers(8)", HELPER.format(name="layers(n)", made="nn.Linear(2, 2, bias=False)")),
            "makes nn.Linear()",
        ),
        (network("copy.deepcopy(args.net)"), "calls self.net()"),
        (network("nn.Sequential(*args.layers)"), "calls self.net()"),
        (
            network(
                "made()",
                HELPER.format(name="made()", made="Other()").replace(
                    "def", "class Other(nn.Linear):\n        pass\n\n    def"
                ),
            ),
            "calls self.net()",
        ),
        (
            {"act": "actions = np.array([random.choice((-1, 1))])"},
            "no call of a trained network in the training loop itself chooses",
        ),
        (
            {"act": changed("act", "q_values = q_network", "with torch.no_grad():\n        q_values = q_network")},
            "already chosen under torch.no_grad()",
        ),
        (
            {"network": changed("network", "nn.Linear(2, 8)", "nn.Linear(2, 8, bias=False)")},
            "makes nn.Linear(), which is not known",
        ),
        ({"network": changed("network", "nn.Tanh()", "nn.Dropout()")}, "makes nn.Dropout()"),
        ({"network": changed("network", "self.net(x)", "self.net(x) @ torch.eye(2)")}, "multiplies matrices"),
        ({"network": changed("network", "self.net(x)", "F.dropout(self.net(x) * x.requires_grad)")}, "requires_grad"),
        ({"sample": "<kept>"}, "may be used for more than their values"),
        (
            {"network": changed("network", "return self.net(x)", "self.last = self.net(x)\nreturn self.last")},
            "sets self",
        ),
        (
            {"network": changed("network", "return self.net(x)", "LAST['x'] = self.net(x)\nreturn LAST['x']")},
            "sets LAST",
        ),
        (
            {"network": changed("network", "return self.net(x)", "global last\nlast = self.net(x)\nreturn last")},
            "binds last elsewhere",
        ),
    ],
)
def test_acting_is_left_alone(parts: dict[str, str], why: str) -> None:
    if parts.get("sample") == "<kept>":  # the loss uses what the network computed when it acted
        act = "q_values = q_network(torch.Tensor(obs).to(device))\nactions = 2 * q_values.argmax(1).numpy() - 1"
        learn = changed("learn", "loss = F.mse_loss(values, goal)", "loss = F.mse_loss(values, goal) + q_values.mean()")
        parts = {"act": act, "learn": learn}
    assert why in reason("acting", replay(**parts))


def test_target_update() -> None:
    assert made("target-update", replay()).splitlines() == [
        "def update_targets():",
        '"""Move the target networks\' parameters towards those of the trained networks."""',
        "with torch.no_grad():",
        "torch._foreach_mul_(targets, 1.0 - args.tau)",
        "torch._foreach_add_(targets, torch._foreach_mul(sources, args.tau))",
        "targets = list(target_network.parameters())",
        "sources = list(q_network.parameters())",
        "update_targets()",
    ]


PRODUCT = "torch._foreach_add_(targets, torch._foreach_mul(sources, args.tau))"
ALPHA = "torch._foreach_add_(targets, sources, alpha=args.tau)"
IN_PLACE = {
    "t.data.mul_(1 - args.tau)\n    t.data.add_(args.tau * p.data)": PRODUCT,
    "t.data.mul_(1 - args.tau).add_(p.data * args.tau)": PRODUCT,
    "t.data.mul_(1 - args.tau).add_(p.data, alpha=args.tau)": ALPHA,
    "t.data.mul_(1 - args.tau)\n    t.data.add_(p.data, alpha=args.tau)": ALPHA,
    "t.data.lerp_(p.data, args.tau)": "torch._foreach_lerp_(targets, sources, args.tau)",
}
"""Ways to move a target's parameter in place, and the call that moves all of them."""
PAIRS = "for p, t in zip(q_network.parameters(), target_network.parameters()):"


@pytest.mark.parametrize("quiet", [False, True], ids=["data", "no_grad"])
@pytest.mark.parametrize("body", IN_PLACE)
def test_targets_moved_in_place(body: str, quiet: bool) -> None:
    loop = f"{PAIRS}\n    {body}"
    if quiet:
        loop = "with torch.no_grad():\n" + textwrap.indent(loop.replace(".data", ""), "    ")
    moved = made("target-update", replay(follow=loop))
    assert IN_PLACE[body] in moved
    assert moved.count("torch._foreach") - moved.count("_foreach_mul(") == (1 if "lerp" in body else 2)


@pytest.mark.parametrize(
    "body",
    [
        "t.data.mul_(1 - args.tau).add_(p.data, alpha=loss.item())",
        "t.data.mul_(1 - args.tau).add_(t.data, alpha=args.tau)",
        "t.data.mul_(p.data).add_(p.data, alpha=args.tau)",
        "t.data.mul_(1 - args.tau).sub_(p.data, alpha=args.tau)",
        "t.data.mul_(1 - args.tau).add_(p.grad, alpha=args.tau)",
        "t.data.lerp_(t.data, args.tau)",
        "p.data.lerp_(p.data, args.tau)",
        "t.data.lerp_(p.data, torch.tensor(args.tau))",
        "t.data.mul_(1 - args.tau).add_(p.data, alpha=args.tau, out=t.data)",
        "t.data.clone().mul_(1 - args.tau).add_(p.data, alpha=args.tau)",
    ],
)
def test_other_moves_in_place(body: str) -> None:
    assert isinstance(turn("target-update", replay(follow=f"{PAIRS}\n    {body}"), ()).outcome, Skipped)


SUMS = [
    "t.data.copy_(0.05 * p.data + 0.95 * t.data)",
    "t.data.copy_(t.data * 0.9 + p.data * args.tau)",
    "t.data.copy_((1 - args.tau) * t.data + args.tau * p.data)",
]


@pytest.mark.parametrize("body", [*IN_PLACE, *SUMS])
def test_moved_in_one_call_to_the_same_bits(body: str) -> None:
    torch.manual_seed(0)
    ours, theirs = ([torch.randn(4097), torch.randn(7, 5)[:, 1:4]] for _ in range(2))
    targets, args = [t.clone() for t in theirs], SimpleNamespace(tau=0.005)
    for p, t in zip(ours, theirs, strict=True):
        exec(textwrap.dedent("    " + body), {"p": p, "t": t, "args": args})
    lines = [
        line for line in made("target-update", replay(follow=f"{PAIRS}\n    {body}")).splitlines() if "_foreach" in line
    ]
    exec("\n".join(map(str.strip, lines)), {"torch": torch, "targets": targets, "sources": ours, "args": args})
    assert all(map(torch.equal, targets, theirs))


COPY = "target_param.data.copy_(args.tau * param.data + (1.0 - args.tau) * target_param.data)"


@pytest.mark.parametrize(
    ("follow", "why"),
    [
        ("target_network.load_state_dict(q_network.state_dict())", "no loop in the training loop goes through"),
        (changed("follow", "1.0 - args.tau", "loss.item()"), "loss.item() is not known to be a constant number"),
        (changed("follow", "args.tau * param.data +", "args.tau * param.data -"), "not a sum of both"),
        (changed("follow", COPY, COPY + "\n    print(param.norm())"), "it does more than copy"),
        (
            changed("follow", COPY, COPY.replace("args.tau", "rate")).replace("for", "rate = loss.item()\nfor", 1),
            "rate",
        ),
        (
            changed("follow", COPY, f"{COPY}\nside = target_network(torch.Tensor(obs)).mean()\nside.backward()"),
            "may compute gradients",
        ),
        (
            changed(
                "follow",
                COPY,
                f"{COPY}\nx = torch.Tensor(obs).requires_grad_()\nside = target_network(x).mean()\n"
                "torch.autograd.grad(side, x)",
            ),
            "may compute gradients",
        ),
    ],
)
def test_target_update_is_left_alone(follow: str, why: str) -> None:
    assert why in reason("target-update", replay(follow=follow))


def test_a_rate_that_is_no_constant_is_shown_on_its_line() -> None:
    """The loop may begin far above that line."""
    source = replay(follow=changed("follow", "1.0 - args.tau", "loss.item()"))
    line = re.search(r"line (\d+): loss.item\(\)", reason("target-update", source))
    assert line is not None and "loss.item()" in source.splitlines()[int(line[1]) - 1]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (("target_network = QNetwork().to(device)", "target_network = q_network"), "made differently"),
        (("target_network = QNetwork().to(device)", "target_network = nn.Linear(2, 2)"), "made differently"),
        (
            ("optimizer = ", "target_network.net[0].bias.data = q_network.net[0].bias.data\noptimizer = "),
            "replaces a tensor's memory",
        ),
        (
            ("optimizer = ", "target_network.net[0].bias.data.set_(q_network.net[0].bias.data)\noptimizer = "),
            "replaces a tensor's memory",
        ),
        (
            ("optimizer = ", "target_network.net[0] = q_network.net[0]\noptimizer = "),
            "sets target_network.net[0]",
        ),
    ],
)
def test_networks_that_share_parameters_are_left_alone(make: tuple[str, str], why: str) -> None:
    assert why in reason("target-update", replay(make=changed("make", *make)))


@pytest.mark.parametrize(
    ("use", "detached"),
    [
        ("print(loss.item())", True),
        ("print(f'{loss:.3f}', loss.shape)", True),
        ("print(loss)", False),
        ("print([loss.item()])", True),
        ("print([loss])", False),
        ("print(f'{(loss, 1)}')", False),
        ("print('%s %s' % (loss, 1))", False),
        ("print(*(loss, 1))", False),
        ("print({'loss': loss})", False),
        ("print(f'{loss!r}')", False),
        ("print(repr(loss))", False),
        ("print('%s' % loss)", False),
        ("print(loss.grad_fn)", False),
        ("print(loss.requires_grad)", False),
        ("kept = []\nkept.append(loss)\nprint(sum(kept))", False),
        ("other = loss\nprint(other)", False),
        ("show(loss)", False),
        ("kept = {}\nkept.update(loss=loss)\nprint(kept)", False),
        ("kept = []\nkept.append(loss)\nprint(sum(kept).item())", False),  # prints no graph, but that is not known
        ("other = loss\nprint(other.item())", True),
        ("with torch.no_grad():\n    other = loss * 2\nprint(other)", True),
        ("other = loss * 2\nprint(other)", False),
        ("with torch.no_grad():\n    print('%s' % loss)", False),
        ("from torch.utils.tensorboard import SummaryWriter\nSummaryWriter().add_scalar('loss', loss, 1)", True),
    ],
)
def test_a_result_whose_graph_shows_is_not_detached(use: str, detached: bool) -> None:
    source = replay(follow=f"{use}\n" + changed("follow", "for", "for"))
    after = "\n".join(made("update", source).splitlines())
    assert ("return loss.detach()" in after) == detached
    assert ("return loss\n" in f"{after}\n") != detached


def test_an_attribute_of_this_name_that_no_tensor_has() -> None:
    source = replay().replace("self.rows", "self.data")
    assert "self.data = []" in source
    assert "_foreach" in made("target-update", source)


FREEZE = "for p in target_network.parameters():\n    p.requires_grad_(False)\n"


@pytest.mark.parametrize(
    ("line", "applies"),
    [
        (FREEZE, True),
        (FREEZE.replace("_(False)", " = False"), True),
        ("target_network.requires_grad_(False)\n", True),
        (FREEZE.replace("requires_grad_(False)", "set_(q_network.net[0].bias)"), False),
        (FREEZE.replace("requires_grad_(False)", "register_hook(print)"), False),
    ],
)
def test_target_networks_may_be_frozen_above_the_loop(line: str, applies: bool) -> None:
    parts = replay(make=changed("make", "optimizer = ", f"{line}optimizer = "))
    if applies:
        assert "update_targets()" in made("target-update", parts)
    else:
        assert "line" in reason("target-update", parts)


@pytest.mark.parametrize(
    ("top", "more", "applies"),
    [
        ("RATE = 0.01", "", True),
        ("OTHER, RATE = 3, 0.01", "", True),
        ("RATE = input()", "", False),
        ("RATE = 0.01\nRATE = 0.02", "", False),
        ("RATE = 0.01", "global RATE\nRATE = 0.5", False),
        ("for RATE in (0.01, 0.1):\n    pass", "", False),
    ],
)
def test_a_rate_at_the_top_of_the_file(top: str, more: str, applies: bool) -> None:
    function = f"def other():\n    {more or 'pass'}".replace("\n", "\n    ").replace("        global", "    global")
    source = replay(follow=changed("follow", COPY, COPY.replace("args.tau", "RATE")))
    source = source.replace("class QNetwork", f"{top}\n\n\n{function}\n\n\nclass QNetwork", 1)
    if applies:
        assert "1.0 - RATE" in made("target-update", source)
    else:
        assert "RATE is not known to be a constant number" in reason("target-update", source)


@pytest.mark.parametrize("then", ["", ".requires_grad_(False)", ".to(device).eval()", ".half()", ".apply(reset)"])
def test_target_update_of_a_copy(then: str) -> None:
    copied = f"target_network = copy.deepcopy(q_network){then}"
    source = replay(make=changed("make", "target_network = QNetwork().to(device)", copied))
    kept = then not in (".half()", ".apply(reset)")
    assert ("update_targets()" in turn("target-update", source, ()).after) == kept


def test_a_loop_over_pairs_of_networks_is_told_apart() -> None:
    body = textwrap.indent(changed("follow", "target_network.parameters()", "target.parameters()"), "    ")
    pairs = body.replace("q_network.parameters()", "network.parameters()")
    source = replay(follow=f"for network, target in ((q_network, target_network),):\n{pairs}")
    assert "it is in a loop over pairs of networks: write one loop for each pair" in reason("target-update", source)


OTHER_PARAMETERS = {
    "made anew": "target_network = copy.deepcopy(q_network)",
    "a part": "target_network.net[0] = nn.Linear(3, 8)",
    "applied": "target_network.apply(reset)",
    "by a function": "reset(target_network.net[0])",
    "by keyword": "again(net=target_network)",
    "in the dict of parts": "target_network._modules['net'] = copy.deepcopy(q_network.net)",
    "assigned": "target_network.load_state_dict(q_network.state_dict(), assign=True)",
    "pruned": "torch.nn.utils.prune.l1_unstructured(target_network.net[0], 'weight', 0.5)",
    "by another name": "other = target_network\n    other.net = copy.deepcopy(q_network.net)",
}
HELPERS = """
def reset(m):
    if isinstance(m, nn.Linear):
        m.weight = nn.Parameter(m.weight.detach().clone())


def again(**given):
    given["net"].net = copy.deepcopy(given["net"].net)
"""


@pytest.mark.parametrize("change", OTHER_PARAMETERS.values(), ids=OTHER_PARAMETERS)
def test_a_copied_target_that_gets_other_parameters_is_left_alone(change: str) -> None:
    copied = changed("make", "target_network = QNetwork().to(device)", "target_network = copy.deepcopy(q_network)")
    follow = changed("follow", COPY, f"{COPY}\nif global_step == 50:\n    {change}")
    parts = {"make": copied, "follow": follow}
    text = replay(**parts).replace("\n\nif __name__", f"\n{HELPERS}\n\nif __name__", 1)
    assert "def reset" in text
    assert isinstance(turn("target-update", text, ()).outcome, Skipped)


FOLLOWED = """
def follow_all(target, network, tau):
    for t, p in zip(target.parameters(), network.parameters()):
        t.data.copy_(tau * p.data + (1.0 - tau) * t.data)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = nn.Flatten()
"""


@pytest.mark.parametrize(
    ("made", "given", "why"),
    [
        ("", "target_network, q_network", None),
        ("", "nn.Tanh(), nn.Tanh()", "not known to have parameters"),
        ("one, two = Table(), Table()", "two, one", "not known to have parameters"),
        ("one, two = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())", "two, one", "not known to have parameters"),
        ("small = copy.deepcopy(q_network).bfloat16()", "small, q_network", "another dtype"),
        ("small = copy.deepcopy(q_network)\nsmall.to(torch.float64)", "small, q_network", "another dtype"),
        ("q_network.count = nn.Parameter(torch.tensor(3), False)", "target_network, q_network", "may hold integers"),
    ],
)
def test_only_float32_parameters_are_moved_together(made: str, given: str, why: str | None) -> None:
    """torch's function raises for no parameters and for integers, and rounds where copy_() casts."""
    make = changed("make", "target_network = QNetwork().to(device)", "target_network = copy.deepcopy(q_network)")
    parts = {"make": f"{make}\n{made}", "follow": f"follow_all({given}, args.tau)"}
    text = replay(**parts).replace("\n\nif __name__", f"\n{FOLLOWED}\n\nif __name__", 1)
    outcome = turn("target-update", text, ()).outcome
    assert isinstance(outcome, Applied) if why is None else why in outcome.reason, outcome


ROWS = """
with torch.no_grad():
    place = (b_rewards * torch.ones(1, 4)).clamp(0, 3)
    lower, share = place.floor().clamp(0, 3), (place - 0.5) * place
    lower = place.floor().clamp(0, 3)
    share = (place - 0.5) * place
    spread = torch.zeros_like(place)
    for i in range(spread.size(0)):
        spread[i].index_add_(0, lower[i].long(), share[i])
"""


def with_rows(old: str = "", new: str = "") -> str:
    learn = ROWS.replace("    lower, share = place.floor().clamp(0, 3), (place - 0.5) * place\n", "")
    assert old in learn
    learn = learn.replace(old, new) if old else learn
    return replay(
        learn=learn + changed("learn", "F.mse_loss(values, goal)", "F.mse_loss(values, goal + spread.sum(1))")
    )


def test_scatter_rows() -> None:
    assert made("scatter-rows", with_rows()) == "spread.scatter_add_(1, lower.long(), share)"


def test_scatter_rows_of_a_minibatch() -> None:
    rows = (
        "spread = torch.zeros_like(newvalue)\nlower = newvalue - 1\nshare = newvalue - 2\n"
        "for row in range(spread.size(0)):\n    spread[row].index_add_(0, lower[row].long(), share[row])\n"
    )
    step = turn("scatter-rows", script({"optimize": rows + PARTS["optimize"]}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "spread.scatter_add_(1, lower.long(), share)" in step.after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("share[i])", "share[0])", "does more than add to a row"),
        ("spread[i].index_add_(0", "spread[i].index_add_(-1", "does more than add to a row"),
        ("torch.zeros_like(place)", "place", "spread is not known to be a new tensor"),
        ("range(spread.size(0))", "range(4)", "is not known to be the rows"),
        ("(place - 0.5) * place", "[p for p in place]", "share is not known to be a tensor"),
        ("place.floor().clamp(0, 3)", "spread_of(place)", "lower is not known to be a tensor"),
        ("share[i])", "share[i])\n        print(i)", "does more than add to a row"),
    ],
)
def test_scatter_rows_is_left_alone(old: str, new: str, why: str) -> None:
    assert why in reason("scatter-rows", with_rows(old, new))


def test_replay() -> None:
    lines = made("replay", from_library()).splitlines()
    assert lines[0] == "def to_device(samples):"
    assert lines[-2:] == [
        'rb = ReplayBuffer(50, space, SimpleNamespace(dtype=np.int64), "cpu")',
        "b_obs, b_actions, b_next_obs, b_dones, b_rewards = to_device(rb.sample(args.batch_size))",
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("dtype=np.int64), device)", "dtype=np.int64))", "does not give rb the script's device"),
        ("dtype=np.int64), device)", "dtype=np.int64), *[device])", "does not give rb the script's device"),
        ("dtype=np.int64), device)", 'dtype=np.int64), "cuda:1")', "does not give rb the script's device"),
        ("obs = next_obs\n", "obs = next_obs\n        print(rb.device)\n", "may depend on its device"),
        ("obs = next_obs\n", "obs = next_obs\n        kept = rb\n", "may depend on its device"),
        ("obs = next_obs\n", "obs = next_obs\n        rb.pos = 0\n", "may depend on its device"),
        ("obs = next_obs\n", "obs = next_obs\n        draw = rb.sample\n", "may depend on its device"),
        ("        obs = next_obs\n", "        obs, device = next_obs, 'cpu'\n", "may become another device"),
    ],
)
def test_replay_is_left_alone(old: str, new: str, why: str) -> None:
    source = from_library()
    assert source.count(old) == 1
    assert why in reason("replay", source.replace(old, new))


def test_replay_is_for_libraries() -> None:
    own = "class ReplayBuffer(buffers.ReplayBuffer):\n    pass\n\n\n"
    shadowed = "class ReplayBuffer(ReplayBuffer):\n    pass\n\n\n"
    library = from_library()
    other = library.replace("from cleanrl_utils.buffers import ReplayBuffer", "from cleanrl_utils import buffers")
    for source in (
        replay(),
        other.replace("class QNetwork", own + "class QNetwork"),
        library.replace("class QNetwork", shadowed + "class QNetwork"),
    ):
        assert "no replay buffer of a known library" in reason("replay", source)


def captured(source: str) -> set[str]:
    """The functions that --cudagraphs replays."""
    return set(re.findall(r"(\w+) = CudaGraphModule", convert(source).source))


def test_updates_are_captured() -> None:
    assert captured(from_library()) == {"policy", "update"}
    two = {**TWO, "learn": TWO["learn"].replace("target_network(b_next_obs).detach()", "b_next_obs")}
    assert captured(from_library(**two)) == {"policy", "update", "update_actor"}


def test_samples_of_another_device_are_not_captured() -> None:
    source = from_library().replace("dtype=np.int64), device)", 'dtype=np.int64), "cpu")')
    assert captured(source) == {"policy"}


FEW = "b_obs, b_actions, b_next_obs, b_dones, b_rewards = rb.sample(min(args.batch_size, global_step - 12))"


@pytest.mark.parametrize(
    "parts",
    [
        {"sample": FEW},  # their number grows
        {"learn": changed("learn", "optimizer.zero_grad()", "if global_step % 2:\n    optimizer.zero_grad()")},
        {"follow": "target_network = copy.deepcopy(q_network)"},
        {"follow": "target_network.load_state_dict(q_network.state_dict(), assign=True)"},
        {"follow": "target_network.net = copy.deepcopy(q_network.net)"},
        {"follow": "args.gamma *= 0.99"},
        {"learn": changed("learn", "loss = F", "if goal.mean() > 1:\n    goal = goal / 2\nloss = F")},
        {"learn": changed("learn", "loss = F", "values = values * random.random()\nloss = F")},
    ],
)
def test_changing_updates_are_not_captured(parts: dict[str, str]) -> None:
    found = captured(from_library(**parts))
    assert "update" not in found


SEEN = "if 'actor_loss' in locals():\n    print(actor_loss.item())"


def test_a_name_that_is_asked_for_is_a_result() -> None:
    parts = {
        **TWO,
        "learn": TWO["learn"].replace("print(global_step, loss.item(), actor_loss.item())", "pass"),
        "follow": SEEN,
    }
    assert "actor_loss = update_actor(" in convert(replay(**parts)).source
    parts["follow"] = SEEN.replace("print(actor_loss.item())", "print('there')")
    assert "actor_loss = update_actor(" in convert(replay(**parts)).source


@pytest.mark.parametrize(
    "what", ["'policy' in locals()", "len(locals())", "'loss' in dir()", "'loss' in locals().keys()"]
)
def test_other_lookups_of_names_are_refused(what: str) -> None:
    (found,) = convert(replay(follow=f"print({what})")).diagnostics
    assert found.code == "LC005"


def test_logging_goes_below_the_step() -> None:
    step = turn("deferred-sync", replay())
    assert isinstance(step.outcome, Applied), step.outcome
    lines = [line.strip() for line in step.after.splitlines()]
    assert lines.index("optimizer.step()") + 1 == lines.index("if global_step % 10 == 0:")


@pytest.mark.parametrize(
    "log",
    [
        "print(global_step, q_network.net[0].weight.sum().item())",  # the optimizer step changes it
        "goal.mul_(2)\nprint(goal.sum().item())",
        "print(random.random())",
    ],
)
def test_values_that_the_step_may_change_are_logged_above_it(log: str) -> None:
    step = turn("deferred-sync", replay(log=log))
    assert step.after == step.before


def test_a_loss_that_decides_on_actions_is_no_policy() -> None:
    act = "actions = np.array([1 if loss.item() > 0.3 else -1])"
    source = replay(act=act, make=changed("make", "optimizer = ", "loss = torch.zeros(())\noptimizer = "))
    assert "determines the actions of a later step" in reason("policy", source)


def test_a_continue_above_the_update_is_no_decision() -> None:
    act = changed("act", "q_values = q_network(torch.Tensor(obs).to(device))",
                  "with torch.no_grad():\n        q_values = q_network(torch.Tensor(obs).to(device))")  # fmt: skip
    above, gate, below = replay(act=act).partition("        if global_step > args.learning_starts:\n")
    skips = "        if global_step <= args.learning_starts:\n            continue\n"
    source = above + skips + textwrap.indent(textwrap.dedent(below), " " * 8) if gate else ""
    assert made("policy", source) == "policy = q_network\nq_values = policy(torch.Tensor(obs).to(device))"
    assert "already" in reason("acting", source)


@pytest.mark.parametrize(("returned", "outside"), [("list(zip(*picked))", False), ("zip(*picked)", True)])
def test_columns_from_a_method_are_collated_above_the_update(returned: str, outside: bool) -> None:
    sample = "batch = rb.sample(args.batch_size)\n"
    collate = "b_obs, b_next_obs, b_actions, b_rewards, b_dones = map(torch.tensor, map(np.stack, batch))"
    source = replay(sample=sample + collate)
    whole = "[torch.tensor(np.stack(column)) for column in zip(*picked)]"
    assert whole in source
    step = turn("update", source.replace(whole, returned))
    assert step.applied and ("def update(batch" not in step.after) == outside


@pytest.mark.parametrize(
    ("drawn", "method"),
    [
        ("random.sample(rb.rows, args.batch_size)", ""),
        ("random.choices(rb.rows, k=args.batch_size)", ""),
        ("rb.sample(args.batch_size)", "return random.sample(self.rows, count)"),
        ("rb.sample(args.batch_size)", "chosen = random.sample(self.rows, k=count)\n        return chosen"),
    ],
)
@pytest.mark.parametrize(
    "collate",
    [
        "b_obs, b_next_obs, b_actions, b_rewards, b_dones = [torch.stack([r[i] for r in batch]) for i in range(5)]",
        "batch = {i: torch.stack([r[i].float() for r in batch]) for i in range(len(batch[0].copy()))}\n"
        "b_obs, b_next_obs, b_actions, b_rewards, b_dones = batch.values()",
    ],
)
def test_a_drawn_list_of_steps_is_collated_above_the_update(drawn: str, method: str, collate: str) -> None:
    """A compiled update would be compiled anew whenever two of its steps share a tensor."""
    source = replay(sample=f"batch = {drawn}\n{collate}")
    source = source.replace("np.array(part, dtype=np.float32).ravel()", "torch.tensor(part).ravel()")
    if method:
        above, below = source.split("        picked = ")
        source = f"{above}        {method}\n{below.partition(chr(10))[2].partition(chr(10))[2]}"
    step = turn("update", source)
    assert step.applied
    (updating,) = (n for n in ast.walk(ast.parse(step.after)) if isinstance(n, ast.FunctionDef) and n.name == "update")
    assert not any(isinstance(n, (ast.ListComp, ast.DictComp)) for n in ast.walk(updating))


def test_an_update_that_is_given_a_drawn_list_is_not_compiled() -> None:
    taken = "torch.stack([move(r[{}]) for r in batch])"
    parts = ", ".join(taken.format(i) for i in range(5))
    network = textwrap.dedent(PARTS_OF_REPLAY["network"]) + "\n\ndef move(part):\n    return part.float() * 1.0\n"
    sample = "batch = random.sample(rb.rows, args.batch_size)\nb_obs, b_next_obs, b_actions, b_rewards, b_dones = "
    source = replay(network=network, sample=sample + parts)
    source = source.replace("np.array(part, dtype=np.float32).ravel()", "torch.tensor(part).ravel()")
    conversion = convert(source)
    assert "def update(batch" in conversion.source and "update = torch.compile" not in conversion.source
    (step,) = (s for s in conversion.steps if s.transform.name == "one-graph")
    assert "update() is not compiled: it is given batch, a list" in str(step.outcome)


def test_update() -> None:
    step = turn("update", replay())
    assert "            values, loss = update(" not in step.after  # nothing below reads its results
    assert "            update(b_next_obs, b_rewards, b_dones, b_obs, b_actions, global_step)" in step.after
    assert (
        "b_obs, b_next_obs, b_actions, b_rewards, b_dones = rb.sample(args.batch_size)\n            update"
        in step.after
    )


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (
            {
                "follow": "if global_step % 2:\n    extra = values.mean()\n    optimizer.zero_grad()\n"
                "    extra.backward()\n    optimizer.step()"
            },
            "computes with values, perhaps with gradients",
        ),
        (
            {
                "sample": "b_obs, b_next_obs, b_actions, b_rewards, b_dones = rb.sample(args.batch_size)\n"
                "values = q_network(torch.tensor(b_obs.numpy()))",
                "learn": changed("learn", "values = q_network(b_obs).gather", "values = values.gather"),
            },
            "carries gradients from line",
        ),
    ],
)
def test_update_keeps_gradients_together(parts: dict[str, str], why: str) -> None:
    step = turn("update", replay(**parts))
    told = step.outcome.reason if isinstance(step.outcome, Skipped) else " ".join(step.outcome.notes)
    assert why in told


TWO = {
    "make": """
        q_network = QNetwork().to(device)
        critic = QNetwork().to(device)
        target_network = QNetwork().to(device)
        target_network.load_state_dict(q_network.state_dict())
        optimizer = optim.Adam(critic.parameters(), lr=1e-2)
        actor_optimizer = optim.Adam(q_network.parameters(), lr=1e-2)
    """,
    "learn": """
        loss = F.mse_loss(critic(b_obs), target_network(b_next_obs).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if global_step % 2 == 0:
            actor_loss = -critic(q_network(b_obs)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            print(global_step, loss.item(), actor_loss.item())
    """,
}


def test_what_keeps_an_update_is_named_by_its_line_though_another_was_extracted_above_it() -> None:
    again = "again = actor_loss * 2\noptimizer.zero_grad()\nagain.backward()\noptimizer.step()"
    below = "        if global_step % 4 == 0:\n" + textwrap.indent(again, " " * 12) + "\n"
    source = replay(**{**TWO, "learn": TWO["learn"].partition("            print(")[0] + below})
    step = turn("update", source)
    assert isinstance(step.outcome, Applied) and step.outcome.left
    lines = [source.splitlines()[int(n) - 1].strip() for n in re.findall(r"line (\d+)", " ".join(step.outcome.left))]
    assert len(lines) == 4
    assert {line for line in lines if "actor_loss" in line} == {*lines}, lines


def test_each_update_has_a_graph_of_its_own() -> None:
    lines = made("one-graph", replay(**TWO), "tensor-lr").splitlines()
    assert "return optimizer.zero_grad, lambda loss: loss.backward(inputs=parameters), optimizer.step" in lines
    assert [line for line in lines if "= traceable(" in line] == [
        "zero_grad, backward, optimizer_step = traceable(optimizer)",
        "zero_grad_actor, backward_actor, optimizer_step_actor = traceable(actor_optimizer)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("        optimizer.zero_grad()\n", "", "backward, step"),  # the actor's loss adds to the critic's gradients
        (
            "optimizer.step()\n        if",
            "optimizer.step()\n        g = critic.net[0].bias.grad\n        if",
            "gives critic.net[0].bias.grad another name",
        ),
    ],
)
def test_gradients_that_meet_are_left_to_torch(old: str, new: str, why: str) -> None:
    learn = TWO["learn"].replace(old, new, 1)
    assert learn != TWO["learn"]
    assert why in reason("one-graph", replay(**{**TWO, "learn": learn}), "tensor-lr")


BOTH_STEP = textwrap.dedent(TWO["learn"]).replace("if global_step % 2 == 0:\n", "<between>\n").replace("\n    ", "\n")
"""Two passes of one update."""


def between(line: str, **parts: str) -> str:
    """The script with something between the two passes."""
    return replay(**{**TWO, "learn": BOTH_STEP.replace("<between>", line), **parts})


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("torch.manual_seed(int(b_rewards.sum()) + 3)", "calls torch.manual_seed()"),
        ("torch.manual_seed(3)", "calls torch.manual_seed()"),
        ("torch.set_num_threads(1)", "calls torch.set_num_threads()"),
        ("high = int(b_rewards.sum())", "reads int(b_rewards.sum()) on the host"),
        ("high = b_rewards.sum().item()", "reads b_rewards.sum() on the host"),
        ("high = f'{loss}'", "shows loss"),
        ("high = str(loss)", "reads str(loss) on the host"),
        ("if loss > 1e3:\n    b_obs = b_obs * 2", "branches on loss > 1000.0"),
        ("b_obs = b_obs * 2 if loss > 1e3 else b_obs", "branches on loss > 1000.0"),
        ("high = global_step > 3 and loss and 1", "branches on global_step > 3"),
        ("assert loss < 1e9", "branches on loss < 1000000000.0"),
        ("high = b_rewards[b_rewards > 0].sum()", "selects elements by a condition"),
        ("chosen = b_rewards > 0\nhigh = b_rewards[chosen].sum()", "selects elements by a condition"),
        ("high = [r for r in (b_rewards, b_obs) if r.sum() > 0]", "branches on r.sum() > 0"),
        ("high = torch.nonzero(b_rewards)", "calls torch.nonzero()"),
        ("print(float(b_rewards.mean()))", "calls print()"),
        ("began = time.time()", "calls time.time()"),
        ("high = np.random.rand()", "calls np.random.rand()"),
        ("high = np.sqrt(b_rewards.numpy())", "calls np.sqrt()"),
        ("high = b_rewards.numpy()", "reads b_rewards on the host"),
        ("high = len(open(__file__).read())", "calls open()"),
        ("high = unheard.of(3)", "calls unheard.of()"),
        ("high = judge(b_rewards)", "reads r.max() on the host"),
        ("high = [judge][0](b_rewards)", "reads r.max() on the host"),
        ("high = envs.call('score')", "runs unknown code"),
    ],
)
def test_a_graph_that_ends_between_passes(line: str, does: str) -> None:
    """A loss that is used below has a graph of its own, and would go back through what the step above has changed."""
    judge = "def judge(r):\n    return r.max().item()\n\n\n"
    source = "import time\n\nimport unheard\n" + between(line).replace("class QNetwork", f"{judge}class QNetwork")
    told = reason("one-graph", source, "flags", "tensor-lr", "update")
    assert does in told
    assert "where the graph may end" in told


@pytest.mark.parametrize(
    "line",
    [
        "",
        "b_obs = b_obs * np.pi",
        "b_obs = b_obs * math.sqrt(2)",
        "b_obs = b_obs * int(args.gamma)",
        "if args.gamma:\n    b_obs = b_obs * 2",
        "if args.gamma and global_step > 3:\n    b_obs = b_obs * 2",
        "if b_obs.shape[0] > 2 and b_obs.dim() == 2:\n    b_obs = b_obs * 2",
        "assert b_obs is not None and isinstance(b_obs, torch.Tensor)",
        "name = f'{args.gamma}'",
        "for p in critic.parameters():\n    b_obs = b_obs + p.detach().mean()",
        "b_obs = torch.where(b_obs > 0, b_obs, 0)",
        "b_obs = judge(b_obs)",
        "with torch.no_grad():\n    b_obs = b_obs + critic(b_obs).mean()",
    ],
)
def test_a_graph_that_goes_on_between_passes(line: str) -> None:
    judge = "def judge(r):\n    if r is None:\n        raise ValueError(f'{r}')\n    return r.max() * r\n\n\n"
    source = "import math\n\n" + between(line).replace("class QNetwork", f"{judge}class QNetwork")
    assert "backward_actor(actor_loss)" in made("one-graph", source, "flags", "tensor-lr", "update")


SEED = "torch.manual_seed(int(b_rewards.sum()))"


@pytest.mark.parametrize(
    "source",
    [
        replay(**{**TWO, "learn": f"{SEED}\n{BOTH_STEP.replace('<between>', '')}"}),
        replay(learn=changed("learn", "loss.backward()", f"loss.backward()\n{SEED}")),
    ],
    ids=["above the passes", "one pass"],
)
def test_a_graph_that_ends_elsewhere(source: str) -> None:
    assert "backward" in made("one-graph", source, "flags", "tensor-lr", "update")


TUNED = {
    "make": changed("make", "optimizer = ", "log_alpha = torch.zeros(1, requires_grad=True)\noptimizer = ")
    + "alpha = log_alpha.exp().item()\nalpha_optimizer = optim.SGD([log_alpha], lr=0.1)\n",
    "learn": changed("learn", "F.mse_loss(values, goal)", "F.mse_loss(values, goal - alpha * values.detach())"),
    "follow": """
        alpha_loss = (log_alpha.exp() * (values.detach() - 0.5)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        alpha = log_alpha.exp().item()
        print(global_step, alpha, f"{alpha:.3f}")
    """,
}


def test_tensor_temperature() -> None:
    assert made("tensor-temperature", replay(**TUNED)).splitlines() == [
        "alpha = log_alpha.exp().detach().reshape(())",
        "alpha = log_alpha.exp().detach().reshape(())",
        'print(global_step, float(alpha), f"{alpha:.3f}")',
    ]


COUNTED = """
class Counted:
    def __init__(self, inner):
        self.inner, self.param_groups = inner, inner.param_groups

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()
        for group in self.inner.param_groups:
            {does}

    def restart(self):
        for group in self.inner.param_groups:
            group["age"] = 0
"""
COUNTS = 'group["age"] = group.get("age", 0) + 1'


@pytest.mark.parametrize("does", [COUNTS, "older(group)"])
@pytest.mark.parametrize("counted", ["optimizer", "alpha_optimizer", "optimizer, alpha_optimizer"])
def test_options_that_another_optimizer_changes_keep_no_update_eager(counted: str, does: str) -> None:
    older = f"def older(group):\n    {COUNTS}\n" if "older" in does else ""
    make = textwrap.dedent(TUNED["make"]) + "".join(f"{name} = Counted({name})\n" for name in counted.split(", "))
    network = f"{COUNTED.format(does=does)}\n\n{older}\n\n{textwrap.dedent(PARTS_OF_REPLAY['network'])}"
    apart = f"if args.tau:\n{textwrap.indent(textwrap.dedent(TUNED['follow']), '    ')}"
    conversion = convert(replay(**{**TUNED, "make": make, "network": network, "follow": apart}))
    for name, optimizer in (("update", "optimizer"), ("update_alpha", "alpha_optimizer")):
        eager = any(note.startswith(f"{name}() is not compiled") for note in conversion.headlines)
        assert eager is (optimizer in counted.split(", ")), conversion.headlines
        assert (f"{name} = torch.compile({name}," in conversion.source) is not eager
    (rates,) = (s.outcome for s in conversion.steps if s.transform.name == "tensor-lr")
    assert "never changes" not in rates.reason  # the rates of the other optimizers, which do not prevent the transform


@pytest.mark.parametrize(
    ("part", "old", "new", "why"),
    [
        (
            "learn",
            "alpha * values.detach()",
            "alpha * args.tau * values.detach()",
            "with something not known to be a tensor",
        ),
        ("learn", "alpha * values.detach()", "alpha**2 * values.detach()", "does more with alpha"),
        ("learn", "alpha * values.detach()", "alpha / values.detach()", "does more with alpha"),
        ("learn", "alpha * values.detach()", "values.detach() / alpha", "does more with alpha"),
        ("learn", "alpha * values.detach()", "alpha // values.detach()", "does more with alpha"),
        ("learn", "alpha * values.detach()", "values.detach() % alpha", "does more with alpha"),
        ("learn", "alpha * values.detach()", "values.detach() ** alpha", "does more with alpha"),
        ("learn", "alpha * values.detach()", "values.detach() * -alpha", "does more with alpha"),
        ("learn", "alpha * values.detach()", "values.detach().mul(alpha)", "does more with alpha"),
        ("learn", "alpha * values.detach()", "(values.detach() > alpha) * values.detach()", "does more with alpha"),
        ("learn", "alpha * values.detach()", "alpha * values.detach().half()", "is not known to be float32"),
        ("make", "alpha = log_alpha.exp().item()", "alpha = 1", "may be a whole number"),
        ("make", "alpha = log_alpha.exp().item()", "alpha = args.batch_size or 0.1", "may be a whole number"),
        ("follow", "{alpha:.3f}", "{alpha!r}", "shows alpha by repr() or str()"),
        ("follow", "{alpha:.3f}", "{alpha!s:>9}", "shows alpha by repr() or str()"),
        ("follow", "{alpha:.3f}", "{alpha!a}", "shows alpha by repr() or str()"),
        ("follow", "{alpha:.3f}", "{alpha=}", "shows alpha by repr() or str()"),
        ("follow", "{alpha:.3f}", "{alpha = !s}", "shows alpha by repr() or str()"),
        ("follow", "alpha = log_alpha.exp().item()", "alpha = log_alpha.exp().item()\nalpha += 0.1", "another value"),
        ("follow", "{alpha:.3f}", "{alpha + 1:.3f}", "inside an f-string"),
        ("make", "torch.zeros(1, requires_grad=True)", "torch.zeros(1, dtype=torch.float64)", "to be float32"),
        ("follow", "log_alpha.exp().item()", "log_alpha.item()", "no update computes a number"),
    ],
)
def test_tensor_temperature_is_left_alone(part: str, old: str, new: str, why: str) -> None:
    text = textwrap.dedent(TUNED[part])
    assert old in text
    assert why in reason("tensor-temperature", replay(**{**TUNED, part: text.replace(old, new)}))


FORMULAS = "alpha * x, x * alpha, alpha + x, x + alpha, alpha - x, x - alpha, alpha * x[0], 0.0 - (alpha - x) * alpha"
"""Formulas with a number that became a tensor, on either side."""
SHOWN = "f'{x} {x:.3f} {x:>20} {x=:.4f} {x:{7}.2}'"
"""Formats that do not depend on the type."""


@pytest.mark.parametrize("seed", range(5))
def test_a_number_and_a_tensor_of_it_are_the_same(seed: int) -> None:
    tensor = torch.randn(1, generator=torch.Generator().manual_seed(seed)).exp().reshape(())
    x = torch.randn(1003, generator=torch.Generator().manual_seed(seed + 9))
    of_number, of_tensor = (eval(FORMULAS, {"alpha": alpha, "x": x}) for alpha in (tensor.item(), tensor))
    assert all(map(torch.equal, of_number, of_tensor))
    assert not torch.equal(tensor.item() / x, tensor / x), "by the reciprocal"
    assert eval(SHOWN, {"x": tensor.item()}) == eval(SHOWN, {"x": tensor})


NOISY = """
    with torch.no_grad():
        q_values = q_network(torch.Tensor(obs).to(device))
        q_values += torch.normal(0, q_network.spread * args.tau)
    actions = 2 * torch.argmax(q_values, dim=1).cpu().numpy() - 1
"""


def noisy(spread: str = "self.register_buffer('spread', torch.tensor([[0.3, 0.2]]))") -> str:
    """The script with noise added to its action values."""
    network = changed("network", "super().__init__()", f"super().__init__()\n        {spread}")
    return replay(network=network, act=NOISY)


def test_noise_is_drawn_without_a_check() -> None:
    assert made("sampling", noisy()).splitlines() == [
        "def normal(mean, std):",
        '"""Draw as torch.normal(mean, std) does, without its check of std, which reads a tensor on the host."""',
        "return torch.randn(std.shape, dtype=std.dtype, device=std.device).mul_(std).add_(mean)",
        "q_values += normal(0, q_network.spread * args.tau)",
    ]


@pytest.mark.parametrize("spread", ["self.spread = 0.1", "self.register_buffer('spread', None)"])
def test_noise_of_what_may_be_no_tensor_is_left_alone(spread: str) -> None:
    assert "no call of a network in the training loop is known to draw" in reason("sampling", noisy(spread))


@pytest.mark.parametrize(
    "source",
    [
        replay(),
        *(
            pytest.param(s, marks=pytest.mark.slow)
            for s in (from_library(), noisy(), replay(**TWO), with_rows(), replay(**TUNED))
        ),
    ],
)
def test_the_converted_script_is_equal(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preload()
    monkeypatch.syspath_prepend(STANDINS)  # which the forks have, too
    script = tmp_path / "script.py"
    script.write_text(source, encoding="utf-8")
    conversion = convert(source)
    assert conversion.converted
    with in_forks():
        original, converted = record(script), record(script, source=conversion.source)
    assert original.steps
    differences = [d for d in compare(original, converted) if d.quantity not in ("text", "file")]
    assert differences == []


def several(fill: str, *, above: str = "losses = []", inside: str = "") -> str:
    """Two updates after each environment step; each appends to a list that is printed after both."""
    learn = textwrap.dedent(PARTS_OF_REPLAY["learn"]).strip().replace("<log>", f"if args.gamma:\n    {fill}")
    body = "\n".join([PARTS_OF_REPLAY["sample"], learn, inside])
    loop = f"for part in range(2):\n{textwrap.indent(body, '    ')}"
    return replay(sample=f"{above}\n{loop}\nprint(np.mean(losses))", learn="")


@pytest.mark.parametrize("inside", ["", "print(losses)", "if len(losses) > 1:\n    print(losses[-1])"])
def test_late_append(inside: str) -> None:
    lines = made("late-append", several("losses.append(loss.item())", inside=inside)).splitlines()
    assert lines == ["new_losses = []", "new_losses.append(loss.item())", "losses += new_losses"]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"fill": "losses.append(loss)", "inside": "print(losses)"}, "appends what may have a graph"),
        (
            {"fill": "losses.append(loss.item())", "above": "losses = []\nkept = [losses]", "inside": "print(kept)"},
            "uses it before the epochs have ended, perhaps through another name",
        ),
        ({"fill": "losses.append(loss.item())", "above": "losses = [0.0]"}, "is not emptied right above the epochs"),
    ],
)
def test_late_append_is_left_alone(parts: dict[str, str], why: str) -> None:
    assert why in reason("late-append", several(**parts))


TAU = "        self.gamma = 0.99\n"
MOVES = """
        for x, y in zip(self.critic.parameters(), self.critic_target.parameters()):
            y.data.copy_(self.tau * x.data + (1 - self.tau) * y.data)"""
COPIED = "        self.critic_target = copy.deepcopy(self.critic)\n"
MADE = "    agent = Agent(3, 1)\n"
LOADED = {
    MADE: f"{MADE}    if args.saved:\n        agent.load(args.saved)\n    print('Agent')\n",
    "class Agent:\n": "class Agent(object):\n",
    "    def act(self": """    def load(self, file):
        self.critic.load_state_dict(torch.load(file))
        self.critic_optimizer.load_state_dict(torch.load(file + "_optimizer"))
        self.critic_target = copy.deepcopy(self.critic)

    def act(self""",
    "    args = parser": '    parser.add_argument("--saved", default="")\n    args = parser',
}
"""A checkpoint that is loaded above the training; a string equal to the class's name means nothing."""


def sized(between: str = "pass", value: str = "1", made: str = "Sizes(**vars(args))") -> dict[str, str]:
    """Both networks are made from the sizes in an object."""
    call = "Net(n_obs + n_act, n_act if sizes.outputs is None else sizes.outputs, False)"
    target = "        self.critic_target.load_state_dict(self.critic.state_dict())\n"
    return {
        "class Agent:\n": "class Sizes:\n    def __init__(self, **given):\n"
        f"        self.given, self.outputs = given, {value}\n\n\nclass Agent:\n",
        "self, n_obs, n_act": "self, n_obs, n_act, sizes",
        MADE: MADE.replace("1)", f"1, {made})"),
        "Net(n_obs + n_act, 1, False)": call,
        COPIED: f"        {between}\n        self.critic_target = {call}\n{target}",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {TAU: f"{TAU}        self.tau = tau\n", "self, n_obs, n_act": "self, n_obs, n_act, tau",
         MADE: MADE.replace("1)", "1, 0.01)")},
        {TAU: f"{TAU}        self.tau = 1 - 0.99\n"},
        {TAU: "        self.gamma, self.tau = 0.99, 0.01\n"},
        {TAU: TAU, "<moves>": MOVES.replace("self.tau", "TAU"), "class Walk": "TAU = 0.01\n\n\nclass Walk"},
        {COPIED: f"{COPIED}        self.critic_target.eval()\n"},
        {"self, n_obs, n_act": "self, n_obs, n_act, **options", MADE: MADE.replace("1)", "1, **vars(args))"),
         TAU: f"        self.__dict__.update(options)\n{TAU}        self.tau = 0.01\n"},
        {"self, n_obs, n_act": "self, n_obs, n_act, **options", MADE: MADE.replace("1)", "1, **vars(args))"),
         TAU: f"{TAU}        self.tau = 0.01\n        self.__dict__.update(options)\n"},
        LOADED,
        {COPIED: "        self.critic_target = Net(n_obs + n_act, 1, False)\n"
         "        self.critic_target.load_state_dict(self.critic.state_dict())\n"},
        {"<moves>": "\n        self.follow()", "    def act(self": f"    def follow(self):{MOVES}\n\n    def act(self"},
        sized(),
        sized(between="self.seen = sizes.outputs"),
    ],
    ids=["a constant", "a parameter", "computed", "two at once", "a variable", "in evaluation", "others by text",
         "perhaps by text", "loaded above", "made alike", "in a method", "sizes of an object", "one is read between"],
)  # fmt: skip
def test_target_networks_of_an_object(changes: dict[str, str]) -> None:
    outcome, source = moved_targets(changes)
    assert isinstance(outcome, Applied), outcome
    assert "    targets = list(agent.critic_target.parameters())\n" in source


@pytest.mark.parametrize(
    "changes",
    [
        {"<moves>": MOVES + "\n        self.tau = 0.5 * self.tau"},
        {"<moves>": MOVES + "\n        if obs.sum() > 9:\n            self.critic_target = copy.deepcopy(self.critic)"},
        {"<moves>": MOVES + "\n        self.critic.body[0] = nn.Linear(4, 32)"},
        {"<moves>": MOVES + "\n        setattr(self, 'ta' + 'u', 0.1)"},
        {"<moves>": MOVES.replace("self.tau", "self.tau[0]"), TAU: f"{TAU}        self.tau = [0.1]\n"},
        {TAU: f"{TAU}        self.tau = np.full(1, 0.1)\n"},
        {COPIED: "        self.critic_target = self.critic\n"},
        {COPIED: f"{COPIED}        self.critic_target.body[2] = self.critic.body[2]\n"},
        {COPIED: f"{COPIED}        self.critic_target.side = nn.Linear(2, 2)\n"},
        {MADE: f"{MADE}    agent.critic_target.body = agent.critic.body\n"},
        {MADE: f"{MADE}    target = agent.critic_target\n    target.body = agent.critic.body\n"},
        {"    def forward(self, x):\n": "    def __deepcopy__(self, memo):\n        return self\n\n"
         "    def forward(self, x):\n"},
        {"<moves>": MOVES + "\n        self.critic_target.load_state_dict(self.critic.state_dict(), assign=True)"},
        {"<moves>": MOVES + "\n        self.critic_target.apply(anew)",
         "class Walk": "def anew(m):\n    m.bias = nn.Parameter(torch.zeros(1))\n\n\nclass Walk"},
        {"<moves>": MOVES + "\n        self.critic_target.body[0].weight = nn.Parameter(torch.zeros(32, 4))"},
        {"    def act(self": "    tau = Count()\n\n    def act(self",
         "class Walk": "class Count:\n    def __get__(self, *_):\n        return 0.1\n\n"
         "    def __set__(self, *_):\n        pass\n\n\nclass Walk"},
        {MADE: f"{MADE}    agent.critic.register_forward_hook(print)\n"},
        {"class Net(nn.Module):\n": "class Net(nn.Module):\n    def parameters(self):\n"
         "        return list(super().parameters())[:2]\n\n"},
        {**LOADED, "agent.learn(replay)\n": "agent.learn(replay)\n            agent.load('x')\n"},
        {**LOADED, MADE: f"{MADE}    make = globals()['Agent']\n"},
        {COPIED: "        self.critic_target = Net(n_obs + n_act, 2 - 1, False)\n"},
        {COPIED: "        self.critic_target = Net(n_obs + n_act, 1, BODY)\n", "Net(n_obs + n_act, 1, False)":
         "Net(n_obs + n_act, 1, BODY)", "class Walk": "BODY = nn.Linear(1, 1)\n\n\nclass Walk"},
        {COPIED: "        self.critic_target = copy.deepcopy(self.actor)\n"},
        {MADE: f"{MADE}    agent.critic_target = copy.deepcopy(agent.critic)\n"},
        {MADE: f"{MADE}    agent.__init__(3, 1)\n"},
        {MADE: f"{MADE}    vars(agent)['critic'] = agent.critic_target\n"},
        sized(between="sizes.outputs = 2"),
        sized(between="n_act, sizes = 2, sizes"),
        sized(between="sizes = replace(sizes)"),
        sized(between="changed(sizes)"),
        sized(value="[nn.Linear(1, 1)]"),
        sized(made="unknown.Sizes()"),
        {TAU: TAU, "<moves>": MOVES.replace("self.tau", "TAU") + "\n        global TAU\n        TAU = 0.1",
         "class Walk": "TAU = 0.01\n\n\nclass Walk"},
    ],
)  # fmt: skip
def test_target_networks_of_an_object_that_may_be_replaced(changes: dict[str, str]) -> None:
    outcome, _ = moved_targets(changes)
    assert isinstance(outcome, Skipped), changes


def moved_targets(changes: dict[str, str]) -> tuple[Applied | Skipped, str]:
    """The outcome for a script whose agent moves a target network in a loop."""
    changes = {TAU: f"{TAU}        self.tau = 0.01\n", "<moves>": MOVES, **changes}
    changes["<thaw>"] = THAW + changes.pop("<moves>")
    step = turn("target-update", agent_script(changes), ("inline",))
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, step.after


def in_function(parts: dict[str, str], given: str = "") -> str:
    """The script in a function called at its end; its rate has a default, and its loss may be a function."""
    make = PARTS_OF_REPLAY["make"] + parts.pop("make", "")
    follow = changed("follow", "copy_(args.tau * param.data + (1.0 - args.tau)", "copy_(tau * param.data + (1.0 - tau)")
    source = replay(**{"log": "", "make": make, "follow": follow, **parts})
    return source.replace('if __name__ == "__main__":', "def main(tau=0.05):") + f"\n\nmain({given})\n"


ERROR = """
        def error(x, acted, goal):
            return F.mse_loss(q_network(x).gather(1, acted).squeeze(1), goal)
"""
SOMETIMES = """
        aux = QNetwork().to(device)
        optimizer = optim.Adam([*q_network.parameters(), *aux.parameters()], lr=1e-2)

        def error(x, acted, goal):
            fit, extra = F.mse_loss(q_network(x).gather(1, acted).squeeze(1), goal), aux(x).mean()
            return (fit + extra if len(x) % 2 else fit), extra
"""
BY_ERROR = changed(
    "learn",
    "values = q_network(b_obs).gather(1, (b_actions > 0).long()).squeeze(1)\nloss = F.mse_loss(values, goal)",
    "loss = error(b_obs, (b_actions > 0).long(), goal)",
)
MADE_ONCE = "optimizer = optim.Adam(q_network.parameters(), lr=1e-2)\n"


def test_a_loss_in_a_function_inside_the_trainings_is_followed() -> None:
    source = in_function({"make": ERROR, "learn": BY_ERROR})
    assert "backward(loss)" in made("one-graph", source, "flags", "update")
    both = BY_ERROR.replace("loss = error", "loss, seen = error") + "print(seen.item())\n"
    sometimes = in_function({"make": SOMETIMES, "learn": both}).replace(MADE_ONCE, "")
    assert "does not always reach aux" in reason("one-graph", sometimes, "flags", "update")


@pytest.mark.parametrize("given", ["*sys.argv[1:]", "tau=torch.ones(1)", "numpy_rate()"])
def test_a_default_that_no_call_passes_is_a_constant(given: str) -> None:
    assert "1.0 - tau" in made("target-update", in_function({}))
    assert "1.0 - tau" in made("target-update", in_function({}, "tau=0.1"))
    assert "tau is not known to be a constant number" in reason("target-update", in_function({}, given))


def test_a_default_that_training_changes_is_no_constant() -> None:
    source = in_function({"sample": PARTS_OF_REPLAY["sample"] + "\ntau = tau * 0.99"})
    assert "tau is not known to be a constant number" in reason("target-update", source)


def test_a_backward_pass_inside_another_call_is_found() -> None:
    source = replay(learn=changed("learn", "loss.backward()", "print(loss.backward())"))
    assert "def update(" in made("update", source)


SAMPLED = """
    b_obs, b_next_obs, actions, rewards, dones = columns(rb, args.batch_size)
    for rows in BatchSampler(SubsetRandomSampler(range(args.batch_size)), 3, DROPS):
        with torch.no_grad():
            best = target_network(b_next_obs[rows]).max(dim=1).values
            goal = rewards[rows].flatten() + args.gamma * best * (1 - dones[rows].flatten())
        values = q_network(b_obs[rows]).gather(1, (actions[rows] > 0).long()).squeeze(1)
        loss = F.mse_loss(values, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if global_step % 10 == 0:
        print(global_step, loss.item())
"""
COLUMNS = """
class Rows:
    def __init__(self, kept):
        self.kept = kept

    def __getitem__(self, rows):
        print(rows)
        return self.kept[rows]


def columns(rb, count):
    obs, next_obs, actions, rewards, dones = rb.sample(count)
    <changed>
    return obs, next_obs, actions, rewards, dones


"""


def sampled(drops: str = "False", change: str = "", after: str = "") -> str:
    """The script with minibatches of a sampler; the names of what they are taken from are arrays elsewhere."""
    imports = "from torch.utils.data import BatchSampler, SubsetRandomSampler\n\n"
    columns = COLUMNS.replace("<changed>", change or "assert count")
    network = imports + columns + textwrap.dedent(PARTS_OF_REPLAY["network"])
    return replay(network=network, sample="", learn=SAMPLED.replace("DROPS", drops) + after)


def test_the_minibatches_of_a_sampler_are_indexed_by_tensors() -> None:
    source = sampled()
    step = turn("shuffle", source)
    assert isinstance(step.outcome, Applied), step.outcome
    drawn = "torch.randperm(args.batch_size, device=device).split(3)"
    assert step.after == step.before.replace(
        "BatchSampler(SubsetRandomSampler(range(args.batch_size)), 3, False)", drawn
    )
    assert "torch.compile(update" in turn("compile", source, ("shuffle", "update")).after


def test_the_minibatches_of_a_sampler_in_order_are_indexed_by_tensors() -> None:
    source = sampled().replace("SubsetRandom", "Sequential")
    assert "for rows in torch.arange(args.batch_size, device=device).split(3):" in made("shuffle", source)


def test_the_dropped_minibatch_of_a_sampler_stays_dropped() -> None:
    assert "for rows in b_inds[: args.batch_size // 3 * 3].split(3):" in made("shuffle", sampled("True"))


@pytest.mark.parametrize(
    "parts",
    [
        {"change": "rewards = rewards.numpy()"},  # an array takes no tensor of every device
        {"change": "dones = Rows(dones)"},
        {"after": "\n    print(rows)"},
        {"after": "\n    print(dict(enumerate(rows)))"},
    ],
)
def test_the_minibatches_of_a_sampler_stay_lists(parts: dict[str, str]) -> None:
    assert "uses rows for more than indexing a tensor" in reason("shuffle", sampled(**parts))


def test_other_minibatches_of_stored_steps_are_left_alone() -> None:
    step = turn("shuffle", replay())
    assert isinstance(step.outcome, Skipped) and step.outcome.kind == "not needed"


STORED = "self.out = self.net(x)"
KEEPS = [
    STORED,
    f"{STORED}.tanh() * 2",
    "self.n, self.out = 1, self.net(x)",
    "self.out = torch.distributions.Normal(self.net(x), 1.0)",
    "made = torch.distributions.Normal(self.net(x), 1.0)\nself.out = made",
    "self.out = torch.distributions.Independent(torch.distributions.Normal(self.net(x), 1.0), 1)",
    "self.out = torch.distributions.Categorical(logits=self.net(x))",
    "self.out = [{'of': self.net(x)}]",
    "self.out = (3, torch.distributions.Normal(self.net(x), 1.0))",
    "self.n, self.out = torch.distributions.Normal(self.net(x), 1.0), 3",
    "self.out, self.n = self.net(x).chunk(2, -1)",
    "self.out: torch.Tensor = self.net(x)",
    "self.kept.update(out=self.net(x))",
    "self.kept.setdefault('out', []).append(torch.distributions.Normal(self.net(x), 1.0))",
    "kept = self.kept\nkept['out'] = self.net(x)",
    "for self.out in [self.net(x)]:\n    pass",
]
KEEPS_NONE = [
    f"{STORED}.detach()",
    "self.out = 3",
    "out = self.net(x)",
    f"with torch.no_grad():\n    {STORED}",
    "out = torch.distributions.Normal(self.net(x), 1.0)",
    "with torch.no_grad():\n    self.out = torch.distributions.Normal(self.net(x), 1.0)",
    "out = []\nout.append(self.net(x))",
]


def keeping(line: str) -> str:
    """The script with two passes, whose networks do this in their forward()."""
    source, result = between(""), "        return self.net(x)"
    assert source.count(result) == 1
    source = source.replace("super().__init__()", "super().__init__()\n        self.kept = {}")
    return source.replace(result, f"{textwrap.indent(line, ' ' * 8)}\n{result}")


@pytest.mark.parametrize("line", KEEPS)
def test_a_value_with_gradients_that_outlives_an_update_of_several_passes(line: str) -> None:
    """torch would compute gradients for it too, after the steps (seen with torch 2.13: compilation fails)."""
    told = reason("one-graph", keeping(line), "tensor-lr", "update")
    assert "keeps a value with gradients" in told


@pytest.mark.parametrize("line", KEEPS_NONE)
def test_what_has_no_gradients_may_outlive_it(line: str) -> None:
    assert "backward_actor(actor_loss)" in made("one-graph", keeping(line), "flags", "tensor-lr", "update")
