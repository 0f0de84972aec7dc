"""Scripts on which a careless transform computes something else; each was once converted wrongly, or nearly.

Each holds the parts that differ from the script in scripts.py, the transform that has to take care, and a piece of
what it says of it, empty where it applies all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from scripts import PARTS, edited

AGENT, OPTIMIZER, ANNEAL, STEP, REPORT = (PARTS[n] for n in ("agent", "optimizer", "anneal", "step", "report"))
TEMPERATURE = AGENT.replace("super().__init__()", "super().__init__()\n        self.temp = 1.0").replace(
    "logits=self.actor(x)", "logits=self.actor(x) / self.temp"
)
LOOP = "\n".join(PARTS["gae"].splitlines()[:-2])
"""GAE's loop without its last two statements."""
LAST = "    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam\n"
DELTA = "    delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]\n"
KEEP = "PAST = []\n\n\ndef keep(x):\n    PAST.append(x)\n\n\n"
SHORTER = "args.num_steps = 8 if iteration < 3 else 4\nargs.batch_size = args.num_steps * args.num_envs"
PLAN = "def plan(args, iteration):\n    " + SHORTER.replace("\n", "\n    ") + "\n\n\n"
BY_TEXT = SHORTER.replace("args.num_steps = 8 if iteration < 3 else 4", 'setattr(args, "num_steps", 8 // iteration)')
CALLABLE = "class Plan:\n    def __call__(self, args, iteration):\n        "
CALLABLE += SHORTER.replace("\n", "\n        ") + "\n\n\nPLAN = Plan()\n\n\n"
LISTED = f"{PLAN}PLANS = [plan]\n\n\n"
DONES = (
    "next_obs, reward, done, info = envs.step(action.cpu().numpy())\nnext_done = np.logical_or(done, done)\n{}\n"
    "rewards[step] = torch.tensor(reward).to(device).view(-1)\n"
    "next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(next_done).to(device)"
)
GAUSSIAN = {
    "third_party": "from torch.distributions import Normal",
    "agent": AGENT.replace("Categorical(logits=self.actor(x))", "Normal(self.actor(x), torch.tensor(0.3).double())")
    .replace("log_prob(action)", "log_prob(action).sum(1)")
    .replace("entropy()", "entropy().sum(1)"),
    "buffers": edited(
        "buffers",
        "actions = torch.zeros((args.num_steps, args.num_envs",
        "actions = torch.zeros((args.num_steps, args.num_envs, 2",
    ),
    "step": edited("step", "action.cpu().numpy()", "(action.cpu().numpy()[:, 0] > 0).astype(int)"),
    "flatten": edited("flatten", "actions.reshape(-1)", "actions.reshape((-1, 2))"),
    "minibatch": edited("minibatch", "b_actions.long()", "b_actions"),
}
METER = """
class Meter:
    def __init__(self):
        self.coef = 0.5

    def log(self, x):
        self.coef *= 0.9


""".lstrip()


@dataclass(frozen=True)
class Hostile:
    """One such script."""

    title: str
    transform: str
    parts: dict[str, str]
    said: str = ""
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.title


HOSTILE = [
    Hostile(
        "a turn of GAE needs what the turn before set",
        "gae-hoist",
        {
            "gae": "nextvalues, nextnonterminal = next_value, 1.0 - next_done\n"
            + "for t in reversed(range(args.num_steps)):\n"
            + DELTA
            + LAST
            + "    nextvalues = values[t]\n    nextnonterminal = 1.0 - dones[t]"
        },
        "each result in it depends on that of another step",
    ),
    Hostile(
        "a name is bound twice in a turn of GAE",
        "gae-hoist",
        {
            "gae": "other, rets = 0, torch.zeros_like(rewards)\nfor t in reversed(range(args.num_steps)):\n"
            "    x = rewards[t] - values[t]\n    advantages[t] = lastgaelam = x + 0.9 * lastgaelam\n"
            "    x = rewards[t] * 2\n    rets[t] = other = x + 0.9 * other\nprint(rets.sum().item())"
        },
        "nothing in it is elementwise",
    ),
    Hostile(
        "GAE over a list",
        "gae-hoist",
        {"gae": "rews = [r for r in rewards]\n" + PARTS["gae"].replace("rewards[t]", "rews[t]")},
    ),
    Hostile(
        "GAE with one number per step",
        "gae-hoist",
        {
            "gae": "discounts = torch.linspace(0.9, 0.99, args.num_steps)\n"
            + PARTS["gae"].replace("args.gamma *", "discounts[t] *")
        },
        args=("--num-envs", "8"),
    ),
    Hostile(
        "delta goes on growing",
        "gae-hoist",
        {
            "gae": LOOP
            + "\n"
            + DELTA
            + "    delta = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam\n"
            + "    advantages[t] = lastgaelam = delta"
        },
    ),
    Hostile(
        "a turn of GAE changes the rewards through another name",
        "gae-hoist",
        {"gae": LOOP + "\n    r = rewards[t]\n    r *= 0.5\n" + DELTA + LAST},
        "line 110 changes r in place",
    ),
    Hostile(
        "a recorded value is changed through a view",
        "storage",
        {"act": PARTS["act"] + "\nflat = value.view(-1)\nflat += 1"},
    ),
    Hostile(
        "a recorded value is changed through another name",
        "storage",
        {"act": PARTS["act"] + "\nsame = value\nsame.mul_(2)"},
    ),
    Hostile(
        "a recorded value is written to by out=",
        "storage",
        {"act": PARTS["act"] + "\nwith torch.no_grad():\n    torch.mul(value, 2, out=value)"},
    ),
    Hostile(
        "a recorded value is changed by a function",
        "storage",
        {"functions": "def double(v):\n    v.mul_(2)\n\n\n", "act": PARTS["act"] + "\ndouble(value)"},
    ),
    Hostile(
        "the network returns one tensor twice",
        "storage",
        {
            "agent": AGENT.replace("probs.entropy(), self.critic(x)", "probs.entropy(), value, value").replace(
                "        return action,", "        value = self.critic(x)\n        return action,"
            ),
            "act": PARTS["act"].replace("_, value =", "_, value, other =") + "\nother.mul_(2)",
            "minibatch": PARTS["minibatch"].replace("entropy, newvalue =", "entropy, newvalue, _ ="),
        },
    ),
    Hostile(
        "the step index is changed",
        "storage",
        {"record": "actions[step] = action", "step": STEP + "\nstep = min(step + 1, 7)\nlogprobs[step] = logprob"},
        "changes the step index",
    ),
    Hostile(
        "one number for all environments",
        "storage",
        {
            "buffers": PARTS["buffers"] + "\nmeans = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            "step": STEP + "\nmeans[step] = torch.tensor(np.mean(reward)).to(device)",
            "report": REPORT + "\nprint(means.sum().item())",
        },
    ),
    Hostile(
        "one number for all environments in the infos",
        "storage",
        {
            "buffers": PARTS["buffers"] + "\nmeans = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            "step": STEP + '\ninfo["m"] = 3.0 + step\nmeans[step] = torch.tensor(info["m"]).to(device)',
            "report": REPORT + "\nprint(means.sum().item())",
        },
    ),
    Hostile(
        "a buffer is kept by what a function returns",
        "storage",
        {
            "functions": KEEP,
            "before_loop": "hold = (lambda: keep)()",
            "report": REPORT + "\nhold(values)\nprint(sum(x.sum().item() for x in PAST))",
        },
        "it is kept from one iteration to the next",
    ),
    Hostile(
        "a buffer is kept by a function in a dictionary",
        "storage",
        {
            "functions": KEEP,
            "before_loop": "sinks = {'a': keep}",
            "report": REPORT + "\nsinks['a'](values)\nprint(sum(x.sum().item() for x in PAST))",
        },
        "it is kept from one iteration to the next",
    ),
    Hostile(
        "a buffer is looked at again after the next rollout",
        "storage",
        {"report": REPORT + "\nif iteration > 1:\n    print(last.sum().item())\nlast = values"},
    ),
    *(
        Hostile(
            f"observations of all turns in {title}",
            "storage",
            {
                "before_loop": made,
                "flatten": PARTS["flatten"] + "\n" + kept,
                "report": REPORT + f"\nprint(sum(x.sum().item() for x in {all_of}))",
                **parts,
            },
            "obs stays a preallocated buffer",
        )
        for title, made, kept, all_of, parts in (
            ("a list", "past = []", "past.append(b_obs)", "past", {}),
            ("a list that is added to", "past = []", "past += [b_obs]", "past", {}),
            ("a dictionary", "past = {}", "past[iteration] = b_obs", "past.values()", {}),
            ("a tuple", "past = ()", "past = past + (b_obs,)", "past", {}),
            ("lists of a turn", "past = []", "turn = []\nturn.append(b_obs)\npast.append(turn)", "sum(past, [])", {}),
            ("a list with a name for its method", "past = []\nkeep = past.append", "keep(b_obs)", "past", {}),
            ("a list of a function", "", "keep(b_obs)", "PAST", {"functions": KEEP}),
        )
    ),
    *(
        Hostile(
            f"a later rollout that is shorter, {title}",
            transform,
            {"head": head, "functions": functions, "report": REPORT + "\nprint(obs.sum().item())"},
            said,
        )
        for title, head, functions, transform, said in (
            ("its advantages", SHORTER, "", "gae-hoist", "so the buffers may have another number of rows"),
            ("its length set by a function", "plan(args, iteration)", PLAN, "storage", "changes the number of steps"),
            ("its length set by its text", BY_TEXT, "", "storage", "changes the number of steps"),
            (
                "its length set by an object",
                "PLAN(args, iteration)",
                CALLABLE,
                "storage",
                "changes the number of steps",
            ),
            (
                "its length set from a list",
                "PLANS[0](args, iteration)",
                LISTED,
                "storage",
                "changes the number of steps",
            ),
        )
    ),
    Hostile(
        "another default dtype",
        "transfers",
        {"setup": 'device = torch.device("cpu")\ntorch.set_default_dtype(torch.float64)'},
    ),
    Hostile(
        "a loop over flags that sets later ones",
        "transfers",
        {
            "step": STEP
            + "\nfor idx, d in enumerate(next_done):\n    if d:\n        print(idx)\n"
            + "        if idx + 1 < len(next_done):\n            next_done[idx + 1] = 1"
        },
    ),
    Hostile(
        "numbers of two dtypes in a list",
        "deferred-sync",
        {
            "metrics": "clipfracs += [(ratio > 1).sum().item()]\nclipfracs += [ratio.mean().item()]",
            "report": REPORT + "\nprint(clipfracs)",
        },
        "still reads",
    ),
    Hostile(
        "epochs that may not run",
        "deferred-sync",
        {
            "minibatches": PARTS["minibatches"].replace(
                "    np.random.shuffle", "    if iteration == 1:\n        break\n    np.random.shuffle"
            ),
            "report": "print(iteration, np.sum(clipfracs))",
        },
        "still reads",
    ),
    Hostile(
        "a tensor that is changed after the step",
        "deferred-sync",
        {
            "minibatch": edited("minibatch", "<metrics>", "kl = (ratio - 1).mean().detach()\nclipfracs += [kl.item()]"),
            "learn": "<minibatch>\nkl.mul_(0)",
        },
        "still reads",
    ),
    Hostile(
        "two prints, of which one has to stay",
        "deferred-sync",
        {"metrics": "print('A', ratio.mean().item())\nprint('B', agent.critic[0].weight.sum().item())"},
        "still reads",
    ),
    Hostile(
        "a print that draws a random number",
        "deferred-sync",
        {"metrics": "print('A', ratio.mean().item(), torch.rand(1).item())\nnoise = torch.rand(1)"},
        "still reads",
    ),
    Hostile(
        "a list of the whole run that others hold",
        "deferred-sync",
        {
            "begin": PARTS["begin"] + "\nhistory, clipfracs = [], []",
            "minibatches": PARTS["minibatches"].replace("clipfracs = []\n", ""),
            "report": REPORT + "\nhistory.append(clipfracs)",
            "end": "    print(history)",
        },
        "still reads",
    ),
    Hostile(
        "a log() of the file that changes what the loss reads",
        "deferred-sync",
        {
            "agent": METER + AGENT,
            "begin": PARTS["begin"] + "\nmeter = Meter()",
            "minibatch": edited("minibatch", "0.5 * v_loss", "meter.coef * v_loss"),
            "metrics": "kl = ((ratio - 1.0) - ratio.log()).mean()\nmeter.log(kl.item())",
            "report": REPORT.replace("np.mean(clipfracs)", "meter.coef") + "\nmeter.log(1.0)",
        },
        "still reads",
    ),
    Hostile(
        "a print() of the file that changes what the loss reads",
        "deferred-sync",
        {
            "agent": "COEFS = [0.5]\n\n\ndef print(*args):\n    COEFS.append(0.9 * COEFS[-1])\n\n\n" + AGENT,
            "minibatch": edited("minibatch", "0.5 * v_loss", "COEFS[-1] * v_loss"),
            "metrics": "print(ratio.mean().item())",
            "report": REPORT.replace("np.mean(clipfracs)", "COEFS[-1]"),
        },
        "still reads",
    ),
    Hostile(
        "a method that changes what it is given, and is called as one of tensors",
        "deferred-sync",
        {
            "agent": METER.replace("log(self, x)", "mean(self, x)").replace("self.coef *= 0.9", "x.add_(1)") + AGENT,
            "begin": PARTS["begin"] + "\nmeter = Meter()",
            "metrics": "stat = ratio.mean().detach()\nnumber = stat.item()\nmeter.mean(stat)",
            "report": REPORT.replace("np.mean(clipfracs)", "number") + "\nmeter.mean(torch.zeros(()))",
        },
        "still reads",
    ),
    Hostile(
        "the copy of a list, of which an element is changed",
        "deferred-sync",
        {
            "metrics": "stat = ratio.mean().detach()\nboxes = [stat]\nothers = boxes.copy()\n"
            "clipfracs.append(stat.item())\nothers[0].add_(1)",
        },
        "still reads",
    ),
    Hostile(
        "the shape of the indices is printed",
        "shuffle",
        {"metrics": PARTS["metrics"] + "\nprint(mb_inds.shape)"},
        "for more than indexing",
    ),
    Hostile(
        "fewer indices than were made",
        "shuffle",
        {
            "begin": PARTS["begin"] + "\nn = args.batch_size\nb_inds = np.arange(n)",
            "minibatches": PARTS["minibatches"]
            .replace("b_inds = np.arange(args.batch_size)", "n = args.batch_size - 4")
            .replace("range(0, args.batch_size,", "range(0, n,"),
        },
        "may change between",
    ),
    Hostile(
        "a tensor beside the parameters, changed in place",
        "evaluate-once",
        {
            "agent": TEMPERATURE.replace("self.temp = 1.0", "self.temp = torch.ones(1)")
            + "\n\n    def cool(self):\n        self.temp.mul_(0.5)\n",
            "head": "agent.cool()",
        },
        "keeps self.temp",
    ),
    Hostile(
        "an attribute set by a function",
        "evaluate-once",
        {
            "agent": TEMPERATURE,
            "functions": "def cool(a):\n    a.temp *= 0.5\n\n\n",
            "head": "cool(agent)",
        },
        "sets a.temp",
    ),
    Hostile(
        "an attribute set through another name",
        "evaluate-once",
        {"agent": TEMPERATURE, "before_loop": "net = agent", "head": "net.temp *= 0.5"},
        "gives agent another name",
    ),
    Hostile(
        "a list that grows",
        "evaluate-once",
        {
            "agent": TEMPERATURE.replace("self.temp = 1.0", "self.temp = [1.0]").replace(
                "/ self.temp", "/ self.temp[-1]"
            ),
            "head": "agent.temp.append(0.5**iteration)",
        },
        "indexes self.temp[-1]",
    ),
    Hostile(
        "an attribute set together with another",
        "evaluate-once",
        {
            "agent": TEMPERATURE.replace("self.temp = 1.0", "self.temp, self.n = 1.0, 0")
            + "\n\n    def cool(self):\n        self.temp, self.n = self.temp * 0.5, self.n + 1\n",
            "head": "agent.cool()",
        },
        "keeps self.n",
    ),
    Hostile(
        "the network reads arguments that are annealed",
        "evaluate-once",
        {
            "agent": TEMPERATURE.replace("def __init__(self)", "def __init__(self, given)")
            .replace("self.temp = 1.0", "self.given = given")
            .replace("self.temp", "self.given.temp"),
            "make_agent": "args.temp = 1.0\nagent = Agent(args).to(device)",
            "head": "args.temp *= 0.5",
        },
        "keeps self.given",
    ),
    Hostile(
        "another parameter in a layer",
        "evaluate-once",
        {
            "report": REPORT
            + "\nfor layer in agent.actor:\n    if isinstance(layer, nn.Linear):\n"
            + "        layer.weight = nn.Parameter(layer.weight.detach() * 0.5)"
        },
        "uses agent.actor",
    ),
    Hostile(
        "other memory for the parameters, in a function",
        "evaluate-once",
        {
            "functions": "def decay(ps):\n    for p in ps:\n        p.data = p.data * 0.9\n\n\n",
            "report": REPORT + "\ndecay(agent.parameters())",
        },
        "uses data of p, a parameter of the network",
    ),
    Hostile(
        "a function shows the learning rate",
        "tensor-lr",
        {
            "functions": "def show(opt):\n    print(opt.param_groups[0]['lr'])\n\n\n",
            "report": REPORT + "\nshow(optimizer)",
        },
        "",
    ),
    Hostile(
        "a method shows the learning rate",
        "tensor-lr",
        {
            "functions": "class Show:\n    def show(self, opt):\n        print(opt.param_groups[0]['lr'])\n\n\n",
            "report": REPORT + "\nShow().show(optimizer)",
        },
        "may read its learning rate",
    ),
    Hostile(
        "the optimizer's state is read",
        "tensor-lr",
        {"report": REPORT + "\nprint(optimizer.state_dict()['param_groups'][0]['lr'])"},
        "reads its state",
    ),
    Hostile(
        "a copy of a parameter group",
        "tensor-lr",
        {"anneal": "old = dict(optimizer.param_groups[0])\n" + ANNEAL + "\nprint(old['lr'])"},
        "takes a parameter group by itself",
    ),
    Hostile(
        "a distribution leaves the update",
        "update",
        {
            "agent": AGENT.replace("probs.entropy(), self", "probs, self"),
            "minibatch": PARTS["minibatch"].replace("entropy.mean()", "entropy.entropy().mean()"),
            "report": REPORT + "\nprint(entropy.entropy().mean().item())",
        },
    ),
    Hostile(
        "one loss twice",
        "one-graph",
        {"optimize": PARTS["optimize"].replace("loss.backward()", "loss.backward(retain_graph=True)\nloss.backward()")},
    ),
    Hostile(
        "a number of the network leaves the update",
        "update",
        {
            "agent": AGENT + "\n\n    def size(self):\n        return 3.5\n",
            "metrics": "s = agent.size()",
            "report": "print(iteration, s)",
        },
    ),
    *(
        Hostile(
            f"a function made in {where} that outlives it",
            transform,
            {"before_loop": "late = []", part: PARTS[part] + made, "report": REPORT + "\nprint([f() for f in late])"},
            said,
        )
        for where, transform, part, made, said in (
            ("the rollout", "rollout", "step", "\nlate.append(lambda: global_step + step)", "may be kept"),
            ("a minibatch", "update", "metrics", "\nlate.append(lambda: ratio.sum().item())", "may be kept"),
        )
    ),
    *(
        Hostile(
            f"an array of dones {title}",
            "host-arrays",
            {"before_loop": "spare = np.zeros(args.num_envs, dtype=bool)\npast = []", "step": step},
        )
        for title, step in (
            ("that another name changes", DONES.format("d = next_done") + "\nd[:] = True"),
            ("that a list holds", DONES.format("past.append(next_done)") + "\npast[step // 2][:] = True"),
            ("that a view changes", DONES.format("first = next_done[:1]") + "\nfirst[:] = True"),
            ("that is written to again", DONES.format("").replace("or(done, done)", "or(done, done, spare)")),
        )
    ),
    Hostile(
        "a tensor in the memory of dones that are changed",
        "host-arrays",
        {
            "step": edited("step", "torch.Tensor(done)", "torch.Tensor(d)").replace(
                "rewards[step]", "d = done.astype(np.float32)\nsame = d\nrewards[step]"
            )
            + "\nsame[:] = 1.0"
        },
    ),
    Hostile("a scale of another dtype", "sampling", GAUSSIAN),
    Hostile(
        "a draw whose checks are the only ones",
        "sampling",
        {"agent": AGENT.replace("logits=self.actor(x)", "logits=self.actor(x), validate_args=False")},
    ),
    Hostile(
        "torch.multinomial of the script's own",
        "sampling",
        {
            "agent": "plain = torch.multinomial\ntorch.multinomial = lambda *args: 1 - plain(*args)\n\n\n" + AGENT,
        },
        "sets torch.multinomial",
    ),
    Hostile(
        "acting under autocast",
        "evaluate-once",
        {"act": edited("act", "no_grad():", 'no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):')},
        "enters torch.autocast",
    ),
    Hostile(
        "a rate that is a tensor at first",
        "tensor-lr",
        {"optimizer": edited("optimizer", "lr=args.learning_rate", "lr=torch.tensor(args.learning_rate)")},
        "may be a tensor already",
    ),
    Hostile(
        "rates that are tensors, and kept",
        "tensor-lr",
        {
            "before_loop": "past = []",
            "anneal": "lrnow = torch.tensor(args.learning_rate / iteration)\npast.append(lrnow)\n"
            'optimizer.param_groups[0]["lr"] = lrnow',
            "report": "print(iteration, [rate.item() for rate in past])",
        },
        "may be a tensor already",
    ),
    Hostile(
        "the place of a rate is computed",
        "tensor-lr",
        {
            "before_loop": "places = [0] * 10",
            "anneal": 'optimizer.param_groups[places.pop()]["lr"] = args.learning_rate / iteration',
            "report": REPORT + "\nprint(len(places))",
        },
        "must not be evaluated twice",
    ),
    Hostile(
        "the optimizers' step is set during training",
        "one-graph",
        {
            "head": "if iteration == 2:\n    plain = optim.Adam.step\n"
            "    optim.Adam.step = lambda self: (plain(self), plain(self))"
        },
        "sets optim.Adam.step",
    ),
    Hostile(
        "permutations seeded by the epoch",
        "shuffle",
        {
            "minibatches": edited(
                "minibatches", "np.random.shuffle", "np.random.seed(args.seed + epoch)\nnp.random.shuffle"
            )
        },
        "sets a random state",
    ),
    Hostile(
        "rates that a function keeps in tensors",
        "tensor-lr",
        {
            "functions": "def rate_at(turn):\n    rate = torch.tensor(0.03)\n    return rate / turn\n\n\n",
            "anneal": 'optimizer.param_groups[0]["lr"] = rate_at(iteration)',
        },
        "may be a tensor already",
    ),
    Hostile(
        "rates that an object keeps in a tensor, and hands out",
        "tensor-lr",
        {
            "functions": "class Schedule:\n    def __init__(self):\n        self.rate = torch.tensor(0.01)\n\n"
            "    def now(self):\n        return self.rate\n\n\n",
            "before_loop": "schedule = Schedule()",
            "anneal": 'schedule.rate = schedule.rate * 0.9\noptimizer.param_groups[0]["lr"] = schedule.now()',
        },
        "may be a tensor already",
    ),
    Hostile(
        "acting under autocast that is entered by hand",
        "evaluate-once",
        {
            "head": 'half = torch.autocast("cpu", dtype=torch.bfloat16)\nhalf.__enter__()',
            "estimate": "half.__exit__(None, None, None)\n" + PARTS["estimate"],
        },
        "sets how torch computes",
    ),
    Hostile(
        "acting under autocast that a stack enters",
        "evaluate-once",
        {
            "before_loop": "from contextlib import ExitStack",
            "act": "stack = ExitStack()\nstack.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))\n"
            + PARTS["act"]
            + "\nstack.close()",
        },
        "sets how torch computes",
    ),
    Hostile(
        "a distribution that keeps what its checks compute",
        "compile",
        {
            "third_party": "from torch.distributions import OneHotCategorical",
            "agent": edited("agent", "Categorical(logits=self.actor(x))", "OneHotCategorical(logits=self.actor(x))"),
            "buffers": edited(
                "buffers",
                "actions = torch.zeros((args.num_steps, args.num_envs",
                "actions = torch.zeros((args.num_steps, args.num_envs, 2",
            ),
            "flatten": edited("flatten", "actions.reshape(-1)", "actions.reshape((-1, 2))"),
            "step": edited("step", "action.cpu().numpy()", "action.argmax(-1).cpu().numpy()"),
            "minibatch": edited("minibatch", "b_actions.long()", "b_actions"),
        },
        "goes on checking them",
    ),
]
