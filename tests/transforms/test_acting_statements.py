"""The statements that choose a step's actions, moved into a function of their own."""

import pytest
from cases import turn
from golden import FIXTURES

from transformer import Applied, Skipped, Step
from transformer.syntax.text import read

SCRIPT = read(FIXTURES / "acts_into_memory.py").content
STATE = "        state = torch.FloatTensor(observation).to(self.device)\n"
MEAN = "        mean = torch.tanh(self.mean(self.body(state)))\n"
NORMAL = "        normal = Normal(mean, torch.exp(self.log_std))\n"
DRAW = "        action = normal.sample()\n"
KEPT = "        memory.log_probs.append(normal.log_prob(action).sum(-1))\n"
RETURN = "        return 2.0 * action.cpu().numpy()\n"


def edited(*pairs: tuple[str, str]) -> str:
    """The fixture with pieces of it replaced."""
    text = SCRIPT
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def converted(source: str) -> str:
    """The script after the transform, which applies."""
    step = turn("acting-statements", source, ("inline",))
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def held_back(source: str) -> Step:
    step = turn("acting-statements", source, ("inline",))
    assert isinstance(step.outcome, Skipped), step.after
    assert step.after == step.before
    return step


def test_statements_become_a_method_that_computes_what_is_stored() -> None:
    after = converted(SCRIPT)
    assert (
        "    @torch.no_grad()\n    def decide(self, state):\n"
        '        """Choose the actions."""\n'
        "        # tanh keeps the mean within the torque's bounds\n" + MEAN + NORMAL + DRAW + "        log_prob = "
        "normal.log_prob(action).sum(-1)\n        return action, log_prob\n\n    def act(self, observation, memory):\n"
        + STATE
        + "        action, log_prob = self.decide(state)\n\n        memory.states.append(state)\n"
        "        memory.actions.append(action)\n        memory.log_probs.append(log_prob)\n\n" + RETURN
    ) in after


@pytest.mark.parametrize(
    "used",
    [
        "torch.stack(memory.log_probs)",
        "torch.stack(memory.log_probs) + 0.0",
        "torch.stack([p for p in memory.log_probs]).detach()",
        "torch.as_tensor(torch.stack(memory.log_probs))",
        "torch.stack(memory.log_probs).cpu()",
    ],
)
def test_statements_stay_where_gradients_of_what_is_kept_may_be_needed(used: str) -> None:
    source = edited(("torch.stack(memory.log_probs).detach()", used))
    assert "computes values that may need gradients" in held_back(source).outcome.reason


@pytest.mark.parametrize("returned", ["normal.rsample()", "normal.log_prob(action), action.cpu().numpy()"])
def test_statements_stay_where_what_is_returned_has_a_graph(returned: str) -> None:
    source = edited((KEPT, ""), (RETURN, f"        return {returned}\n"))
    assert "computes values that may need gradients" in held_back(source).outcome.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.log_probs = []\n", "        self.log_probs = self.kept = []\n"),
        ("        self.log_probs = []\n", "        kept = self.log_probs = []\n"),
        ("        del self.log_probs[:]\n", "        for self.log_probs in [[]]:\n            pass\n"),
    ],
)
def test_a_list_may_be_read_by_another_name(old: str, new: str) -> None:
    held_back(edited((old, new)))


def test_no_decorator_where_all_is_under_no_grad() -> None:
    source = edited(
        (MEAN + NORMAL, "        with torch.no_grad():\n    " + MEAN + "        normal = Normal(mean, 0.5)\n"),
        ("torch.stack(memory.log_probs).detach()", "torch.stack(memory.log_probs)"),
    )
    after = converted(source)
    assert "@torch.no_grad()" not in after
    assert "        normal = Normal(mean, 0.5)\n" + DRAW in after


def test_an_attributes_name_is_not_taken() -> None:
    source = edited(("        self.optimizer = ", "        self.decide = 1\n        self.optimizer = "))
    assert "    def decide_1(self, state):" in converted(source)


def test_a_conversion_to_numpy_in_between() -> None:
    source = edited(
        (DRAW, DRAW + "        array = action.cpu().numpy()\n"),
        ("2.0 * action.cpu().numpy()", "2.0 * array"),
        (KEPT, "        log_prob = normal.log_prob(action).sum(-1)\n        memory.log_probs.append(log_prob)\n"),
    )
    after = converted(source)
    assert "        log_prob = normal.log_prob(action).sum(-1)\n        return action, log_prob\n" in after
    assert (
        "        action, log_prob = self.decide(state)\n        array = action.cpu().numpy()\n\n"
        "        memory.states.append(state)\n" in after
    )


def test_an_optional_argument_is_a_parameter() -> None:
    greedy = "        if greedy:\n            action = mean.argmax(-1)\n        else:\n    "
    source = edited(
        ("def act(self, observation, memory)", "def act(self, observation, memory, greedy=False)"),
        (DRAW, greedy + DRAW),
    )
    assert "    def decide(self, state, greedy):\n" in converted(source)


@pytest.mark.parametrize(
    "pairs",
    [
        [(DRAW, "        self.count += 1\n" + DRAW)],
        [(DRAW, "        observe(normal)\n" + DRAW)],
        [(DRAW, "        noise = np.random.rand()\n" + DRAW)],
        [(STATE, "        state = observation\n")],
        [(STATE, "        state = self.state\n")],
        [("torch.FloatTensor(observation)", "torch.FloatTensor(observation).apply_(abs)")],
        [(MEAN, "        mean = torch.tanh(self.mean(self.body(state))).mul_(2)\n")],
        [(MEAN, "        mean = torch.tanh(self.mean(self.body(state)), out=self.buffer)\n")],
        [(MEAN, "        mean = torch.tanh(self.mean(self.body(state))) * scale\n")],
        [
            (DRAW, DRAW + "        action = action.numpy()\n"),
            (KEPT, KEPT.replace("(action)", "(torch.tensor(action))")),
        ],
        [("        self.states = []\n", "        self.states = Steps()\n")],
        [("        self.states = []\n", "        self.states = deque(maxlen=5)\n")],
        [("    def clear(self):", "    def append(self, step):\n        step.zero_()\n\n    def clear(self):")],
        [("memory.states.append(state)", "self.next(memory).states.append(state)")],
        [("    memory = Memory()\n", "    memory = Memory()\n    learner.old_network.body[0] = nn.Dropout()\n")],
        [("    memory = Memory()\n", "    memory = Memory()\n    learner.old_network.register_forward_hook(print)\n")],
        [("class Learner:", "class Wide(ActorCritic):\n    pass\n\n\nclass Learner:")],
        [("        self.rewards = []\n", "        self.rewards = []\n        self.states = self\n")],
        [("    memory = Memory()\n", "    memory = Memory()\n    learner.old_network.mean = nn.Identity()\n")],
        [("nn.Tanh())\n        self.mean", "nn.Dropout(0.1))\n        self.mean")],
        [("nn.Tanh())\n        self.mean", "Odd())\n        self.mean")],
        [("class ActorCritic(nn.Module):", "class ActorCritic(networks.Base):")],
        [
            (
                "    def evaluate(",
                "    def __getattr__(self, name):\n        return super().__getattr__(name)\n\n    def evaluate(",
            )
        ],
        [("    def act(", "    @counted\n    def act(")],
        [(RETURN, "        self.last = lambda: action\n" + RETURN)],
        [(DRAW, "        action = normal.mean\n")],
        [("    def act(self, observation, memory)", "    def act(self, observation, memory, Normal=Wide)")],
        [(STATE, "        from torch.distributions import Cauchy as Normal\n\n" + STATE)],
        [(STATE, "        self = self.helper\n" + STATE)],
        [("class ActorCritic", "@counted\nclass ActorCritic")],
        [("class ActorCritic(nn.Module)", "class ActorCritic(nn.Module, metaclass=Counted)")],
        [("    def evaluate(", "    def __getattribute__(self, name):\n        return 1\n\n    def evaluate(")],
        [("nn.Tanh())\n        self.mean", "nn.ReLU(inplace=True))\n        self.mean")],
        [("nn.Tanh())\n        self.mean", "nn.ELU(1.0, True))\n        self.mean")],
        [("nn.Tanh())\n        self.mean", "nn.ReLU(width > 2))\n        self.mean")],
        [("        self.mean = nn.Linear", "        self.body.append(Odd())\n        self.mean = nn.Linear")],
        [
            (
                "        self.mean = nn.Linear(width, n_act)\n",
                "        me = self\n        me.mean = nn.Linear(width, n_act)\n",
            )
        ],
        [("    memory = Memory()\n", "    memory = Memory()\n    odd(learner.old_network.mean)\n")],
        [("    memory = Memory()\n", "    memory = Memory()\n    part = learner.old_network.mean\n")],
        [
            (
                "        self.mean = nn.Linear(",
                "        parts = nn.Sequential()\n        self.value = parts\n        self.mean = Odd(",
            )
        ],
    ],
    ids=lambda pairs: str(pairs[-1][1]).strip()[:60],
)
def test_statements_with_effects_stay(pairs: list[tuple[str, str]]) -> None:
    assert "the rollout does not choose the actions only by calls" in held_back(edited(*pairs)).outcome.reason


NETWORK = (
    "class Net(nn.Module):\n    def __init__(self, n_obs, width):\n        super().__init__()\n"
    "        self.first = nn.Linear(n_obs, width)\n        self.scale = 2.0\n\n    def forward(self, x):\n"
    "        return torch.tanh(self.first(x)) * self.scale\n\n\nclass ActorCritic"
)


def with_network(network: str, *pairs: tuple[str, str]) -> str:
    """The fixture, its body a network of the script's own."""
    layers = "nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())"
    return edited(("class ActorCritic", network), (f"self.body = {layers}", "self.body = Net(n_obs, width)"), *pairs)


def test_a_network_of_the_script_only_computes() -> None:
    assert MEAN in converted(with_network(NETWORK))


@pytest.mark.parametrize(
    "line",
    [
        "x *= 2",
        "x[0] = 0",
        "x = x.mul_(2)",
        "x = F.relu(x, inplace=True)",
        "self.last = x",
        "self.seen.append(x)",
        "global last; last = x",
        "x = x * FACTOR",
        "x = x * len(self.seen)",
        "x = observe(x)",
        "import math as torch",
    ],
)
def test_a_network_that_may_do_more_is_left_alone(line: str) -> None:
    network = NETWORK.replace("(self, x):\n", f"(self, x):\n        {line}\n")
    assert "the rollout does not choose the actions only by calls" in held_back(with_network(network)).outcome.reason


@pytest.mark.parametrize(
    "line",
    [
        "setattr(learner.old_network, 'mean', nn.Identity())",
        "learner.old_network.__dict__.clear()",
        "learner.old_network._modules.clear()",
        "learner.old_network.mean.forward = print",
        "learner.old_network.apply(print)",
        "learner.old_network.add_module('mean', nn.Identity())",
        "list(learner.old_network.modules())[1].append(nn.Identity())",
        "match memory:\n        case Memory(log_probs=kept):\n            pass",
    ],
)
def test_an_unseen_change_of_a_network_prevents_it(line: str) -> None:
    source = edited(("    memory = Memory()\n", f"    memory = Memory()\n    {line}\n"))
    reason = held_back(source).outcome.reason
    assert "so it is not known" in reason or "the rollout does not choose" in reason


@pytest.mark.parametrize("caught", [" ValueError", ""])
def test_a_handler_prevents_it_only_around_acting(caught: str) -> None:
    def tried(code: str, indentation: str) -> str:
        lines = ("try:", f"    {code}", f"except{caught}:", "    pass")
        return "".join(f"{indentation}{line}\n" for line in lines)

    begins = "    memory = Memory()\n"
    converted(edited((begins, begins + tried("memory.clear()", "    "))))
    acting = tried("learner.old_network.act(np.zeros(3, np.float32), memory)", "    ")
    for source in (
        edited(("            memory.clear()\n", tried("memory.clear()", "            "))),
        edited((begins, begins + acting)),
    ):
        assert "catches what a computation may raise" in held_back(source).outcome.reason


def test_a_value_bound_in_one_branch_is_a_parameter() -> None:
    source = edited(
        (STATE, STATE + "        bonus = torch.tensor([0.0])\n"),
        ("        self.mean = nn.Linear", "        self.wide = True\n        self.mean = nn.Linear"),
        (
            NORMAL,
            "        if self.wide:\n            bonus = self.value(state)\n        mean = mean + bonus\n" + NORMAL,
        ),
    )
    assert "def decide(self, state, bonus):" in converted(source)


def test_returned_values_are_computed_in_order() -> None:
    source = edited(
        (RETURN, "        return self.next(memory), self.value(state).item(), action.cpu().numpy()\n"),
        ("        action = learner.old_network.act(", "        _, _, action = learner.old_network.act("),
    )
    assert "        return self.next(memory), self.value(state).item(), " in converted(source)


def test_a_distribution_cannot_be_returned() -> None:
    source = edited((KEPT, "        self.note(memory)\n" + KEPT))
    assert "the rollout does not choose the actions only by calls" in held_back(source).outcome.reason


def test_statements_of_the_training_loop_become_a_function() -> None:
    source = edited(
        (
            "        action = learner.old_network.act(observation, memory)\n",
            "        state = torch.FloatTensor(observation)\n"
            "        with torch.no_grad():\n"
            "            drawn = Normal(torch.tanh(acting(state)), 0.5)\n"
            "            action = drawn.sample()\n"
            "            memory.log_probs.append(drawn.log_prob(action).sum(-1))\n"
            "        memory.states.append(state)\n        memory.actions.append(action)\n"
            "        action = action.numpy()\n",
        ),
        ("    memory = Memory()\n", "    memory = Memory()\n    acting = nn.Linear(3, 1)\n"),
    )
    after = converted(source)
    assert (
        '    def decide(state):\n        """Choose the actions."""\n'
        "        drawn = Normal(torch.tanh(acting(state)), 0.5)\n        action = drawn.sample()\n"
        "        log_prob = drawn.log_prob(action).sum(-1)\n        return action, log_prob\n" in after
    )
    assert "        with torch.no_grad():\n            action, log_prob = decide(state)\n" in after


WRITTEN_OUT = read(FIXTURES / "written_out.py").content
DECIDED = (
    '    def decide(x):\n        """Choose the actions."""\n'
    "        dist = Normal(actor(x), log_std.exp())\n        action = dist.sample()\n"
    "        logprob = dist.log_prob(action).sum(-1)\n        value = critic(x).squeeze(-1)\n"
    "        return action, logprob, value\n"
)


def written_out(old: str, new: str) -> str:
    assert WRITTEN_OUT.count(old) == 1, old
    return WRITTEN_OUT.replace(old, new)


def test_what_buffers_store_is_computed_with_the_action() -> None:
    after = converted(WRITTEN_OUT)
    assert DECIDED in after
    assert (
        "            with torch.no_grad():\n                action, logprob, value = decide(x)\n"
        "                logprobs[step] = logprob\n                values[step] = value\n"
    ) in after


@pytest.mark.parametrize(
    "keeping",
    ["memory", "memory['values']", "memory['steps']"],
)
def test_dicts_and_lists_store_results_too(keeping: str) -> None:
    source = written_out("                values[step] = critic(x)", f"                {keeping}[step] = critic(x)")
    source = source.replace(
        "    batch, minibatch =", "    memory = {'values': [0.0] * horizon, 'steps': {}}\n    batch, minibatch =", 1
    )
    after = converted(source)
    assert ("critic(x)" in after[after.index("def decide") : after.index("for iteration")]) == (keeping == "memory")


@pytest.mark.parametrize(
    "line",
    [
        "actor[0] = nn.Linear(3, 48)",
        "actor.add_module('0', nn.Linear(3, 48))",
        "vars(actor)['_modules']['0'] = nn.Linear(3, 48)",
        "KEPT.append(actor)",
        "another = [actor]",
        "helper(actor)",
        "helper(seed, network=actor)",
        "actor.forward = print",
        "global KEPT\n    KEPT = actor",
    ],
)
def test_a_network_that_a_function_may_change_stays_in_place(line: str) -> None:
    source = written_out("    env = make_env(seed)()\n", f"    {line}\n    env = make_env(seed)()\n")
    helper = "KEPT = []\n\n\ndef helper(x, network=None):\n    x[0] = network[0] = nn.Linear(3, 48)\n\n\n"
    source = source.replace("@torch.no_grad()\ndef test_return", f"{helper}@torch.no_grad()\ndef test_return")
    source = source.replace("{test_return(actor,", "{test_return(critic,")
    step = turn("acting-statements", source, ("inline",))
    assert "values[step] = critic(x)" in step.after  # a buffer is written above it


@pytest.mark.parametrize(
    "line", ["actor.eval()", "helper(actor, x)", "y = helper(x=x, network=actor)", "actor.zero_grad()"]
)
def test_a_function_may_call_the_network_it_gets(line: str) -> None:
    source = written_out("    total, over = 0.0, False\n", f"    {line}\n    total, over = 0.0, False\n")
    helper = "def helper(network, x):\n    return network(torch.as_tensor(x))\n\n\n"
    assert DECIDED in converted(
        source.replace("@torch.no_grad()\ndef test_return", f"{helper}@torch.no_grad()\ndef test_return")
    )


@pytest.mark.parametrize(
    ("write", "moves"),
    [
        ("shift[0] = dist.log_prob(action)[0, 0]", False),
        ("part[0] = dist.log_prob(action)[0, 0]", False),
        ("held['shift'][0] = action[0, 0]", False),
        ("part[0] = 0.5", False),
        ("other[0] = dist.log_prob(action)[0, 0]", True),
        ("x[0] = dist.log_prob(action)[0]", False),
        ("Store()[0] = dist.log_prob(action)", False),
        ("store[0] = dist.log_prob(action)", False),
    ],
)
def test_a_write_into_an_input_moves_nothing(write: str, moves: bool) -> None:
    source = written_out(
        "                logprobs[step] = dist.log_prob(action).sum(-1)\n", f"                {write}\n"
    )
    made = "shift, other, store = torch.tensor([0.0]), torch.tensor([0.0]), Store()"
    source = source.replace(
        "    batch, minibatch =",
        f"    {made}\n    part, held = shift.view(-1), {{'shift': shift}}\n    batch, minibatch =",
        1,
    )
    source = source.replace(
        "critic(x).squeeze(-1)\n            actions", "critic(x + shift).squeeze(-1)\n            actions"
    )
    source = source.replace(
        "def net(", "class Store:\n    def __setitem__(self, at, value):\n        print(value)\n\n\ndef net(", 1
    )
    after = turn("acting-statements", source, ("inline",)).after
    moved = after[after.index("def decide") : after.index("for iteration")] if "def decide" in after else ""
    assert ("critic(x + shift)" in moved) == moves


ACTOR = """\
class Actor(nn.Module):
    def __init__(self, n_in, n_out, width):
        super().__init__()
        self.body = net(n_in, n_out, width)
        self.register_buffer("scale", torch.ones(n_out))
        self.log_std = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return Normal(self.scale * self.body(x), self.log_std.exp())


"""
FORWARD = "        return Normal("
GIVING = {
    "net(n_obs, n_act, width).to(device), net(": "Actor(n_obs, n_act, width).to(device), net(",
    "actor(torch.as_tensor(x, dtype=torch.float32, device=device))": "actor(torch.as_tensor(x)).mean",
    "Normal(actor(x), log_std.exp())": "actor(x)",
    "Normal(actor(flat_states[i]), log_std.exp())": "actor(flat_states[i])",
    "[*actor.parameters(), log_std]": "actor.parameters()",
    "    log_std = nn.Parameter(torch.full((n_act,), -0.5, device=device))\n": "",
    "@torch.no_grad()\ndef test_return": f"{ACTOR}@torch.no_grad()\ndef test_return",
}


def giving(old: str = "", new: str = "") -> str:
    """The script with a network that returns a distribution."""
    source = WRITTEN_OUT
    for before, after in {**GIVING, old: new}.items() if old else GIVING.items():
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


def test_a_network_may_return_the_distribution() -> None:
    after = converted(giving())
    assert DECIDED.replace("Normal(actor(x), log_std.exp())", "actor(x)") in after
    assert "policy = " not in turn("policy", giving(), ("inline",)).after


def test_a_value_that_a_generator_reads_stays_a_result() -> None:
    old = '        print(f"iteration'
    source = giving(old, f'        print(", ".join(str(logprob) for _ in range(2)))\n{old}').replace(
        "logprobs[step] = dist.log_prob(action).sum(-1)", "logprob = dist.log_prob(action).sum(-1)"
    )
    assert "return action, logprob, value\n" in converted(source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FORWARD, f"        self.register_buffer('scale', x)\n{FORWARD}"),
        (FORWARD, f"        other.register_buffer('scale', x)\n{FORWARD}"),
        ('self.register_buffer("scale"', "n_in.register_buffer('scale'"),
        ('self.register_buffer("scale"', "self.register_buffer(n_in"),
        ('self.register_buffer("scale", torch.ones(n_out))', "more = self.register_buffer"),
    ],
)
def test_a_buffer_that_is_registered_otherwise(old: str, new: str) -> None:
    held_back(giving(old, new))


@pytest.mark.parametrize("line", ["self.scale += 1", "self.scale.add_(1)", "self.seen = x"])
def test_a_network_that_changes_itself_moves_as_a_whole(line: str) -> None:
    after = converted(giving(FORWARD, f"        {line}\n{FORWARD}"))
    assert "dist = actor(x)\n" in after[after.index("def decide") : after.index("for iteration")]
    before = "            with torch.no_grad():\n                dist = "
    held_back(
        giving(FORWARD, f"        {line}\n{FORWARD}").replace(before, before.replace("torch.no_grad()", "nothing()"))
    )


LOOP = """\
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, 2**0.5)
"""
BUFFER = '        self.register_buffer("scale"'


@pytest.mark.parametrize(
    "line",
    [
        LOOP,
        f"{LOOP}                m.bias.data.zero_()\n",
        "        nn.init.zeros_(self.log_std)\n",
    ],
)
def test_a_constructor_may_initialize_all_parameters(line: str) -> None:
    assert "def decide" in converted(giving(BUFFER, f"{line}{BUFFER}".replace("log_std", "body[0].weight")))


@pytest.mark.parametrize(
    "line",
    [
        f"{LOOP}                m.bias = None\n",
        f"{LOOP}                m.register_forward_hook(print)\n",
        f"{LOOP}                m.requires_grad_(False)\n",
        f"{LOOP}                parts.append(m)\n",
        "        self.parts = list(self.modules())\n",
        "        parts = self.modules\n",
    ],
)
def test_a_constructor_that_does_more_with_all_parts(line: str) -> None:
    held_back(giving(BUFFER, f"{line}{BUFFER}"))


def test_an_object_may_keep_the_buffers_and_the_network_return_more() -> None:
    source = giving(FORWARD, "        return self.log_std, Normal(").replace("= actor(x)", "= actor(x)[1]")
    assert "dist = actor(x)[1]" in source
    source = source.replace("dist = actor(x)[1]", "spread, dist = actor(x)").replace(
        "actor(torch.as_tensor(x)).mean", "x"
    )
    source = source.replace("logprobs[step] =", "kept.logprobs[step] =").replace(
        "    batch, minibatch =", "    kept = Kept(horizon, n_envs)\n    batch, minibatch =", 1
    )
    kept = "class Kept:\n    def __init__(self, n, m):\n        self.logprobs = torch.zeros(n, m)\n\n\n"
    after = converted(source.replace("def net(", f"{kept}def net(", 1))
    assert "        logprob = dist.log_prob(action).sum(-1)\n" in after[after.index("def decide") :]
    assert "kept.logprobs[step] = logprob\n" in after
    assert "policy = " not in turn("policy", source, ("inline",)).after
