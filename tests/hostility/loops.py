"""Unusual training loops: closures, seeds, settings, early ends and odd tensors that a conversion could lose."""

from __future__ import annotations

from scripts import PARTS

FLOATS = "print(sum(f() for f in LATER))"
LATER = "LATER = []\n\n\n"
SEEDS = "np.random.seed(args.seed + epoch)"

LOOPS: dict[str, dict[str, str]] = {
    "closures of the rollout that are called later": {
        "functions": LATER,
        "stepped": "LATER.append(lambda: global_step + step)",
        "reported": FLOATS,
    },
    "closures of the rollout that are called in the next turn": {
        "functions": LATER,
        "heading": FLOATS,
        "acted": "LATER.append(lambda: global_step + step)",
    },
    "a function made in the rollout": {
        "functions": LATER,
        "stepped": "def later():\n    return global_step\n\nLATER.append(later)",
        "reported": FLOATS,
    },
    "closures of the update that are called later": {
        "functions": LATER,
        "optimized": "LATER.append(lambda: start + float(v_loss))",
        "reported": FLOATS,
    },
    "closures between the epochs": {
        "functions": LATER,
        "epoch_done": "LATER.append(lambda: epoch + end)",
        "reported": FLOATS,
    },
    "closures before the batch": {
        "functions": LATER,
        "estimated": "LATER.append(lambda: float(advantages.sum()))",
        "reported": FLOATS,
    },
    "closures of the loop's name": {
        "functions": LATER,
        "heading": "LATER.append(lambda: iteration)",
        "reported": FLOATS,
    },
    "a closure that moves the counter": {
        "looping": "def tick():\n    global global_step\n    global_step += 1\n    return global_step",
        "stepped": "print(tick())",
    },
    "a class made in the rollout": {"stepped": "class Note:\n    at = global_step", "reported": "print(Note.at)"},
    "a generator over the steps": {
        "functions": "NOTES = []\n\n\n",
        "acted": "NOTES.append(step * i for i in range(3))",
        "reported": "print(sum(sum(n) for n in NOTES))",
    },
    "numpy seeded before each shuffle": {"epoch": SEEDS},
    "numpy seeded once in a turn": {"heading": "np.random.seed(args.seed + iteration)"},
    "numpy seeded by a function": {
        "functions": "def seeded(n):\n    np.random.seed(n)\n\n\n",
        "epoch": "seeded(epoch)",
    },
    "numpy's state that is put back": {"looping": "kept = np.random.get_state()", "epoch": "np.random.set_state(kept)"},
    "torch seeded before each epoch": {"epoch": "torch.manual_seed(args.seed + epoch)"},
    "torch seeded in a turn": {"heading": "torch.manual_seed(args.seed + iteration)"},
    "torch's state that is put back": {
        "heading": "state = torch.get_rng_state()",
        "estimated": "torch.set_rng_state(state)",
    },
    "draws beside the shuffle": {"epoch": "print(np.random.rand())"},
    "draws behind the shuffle": {"begun": "print(np.random.rand())"},
    "draws of Python's": {"stdlib": "import random", "begun": "print(random.random() >= 0)"},
    "indices that are looked at": {"begun": "print(mb_inds.sum())"},
    "indices that are kept": {
        "functions": "SEEN = []\n\n\n",
        "begun": "SEEN.append(mb_inds)",
        "reported": "print(sum(int(s.sum()) for s in SEEN))",
    },
    "indices that are sorted": {"begun": "mb_inds = np.sort(mb_inds)"},
    "indices that are changed in place": {"begun": "mb_inds[0] = mb_inds[1]"},
    "indices of an old shuffle": {"epoch_done": "print(b_inds[:3].tolist())"},
    "the order of the last turn": {"reported": "print(b_inds.sum(), len(b_inds))"},
    "a clip range that falls": {"heading": "args.clip_coef *= 0.9"},
    "a clip range that falls by setattr()": {"heading": 'setattr(args, "clip_coef", 0.9 * args.clip_coef)'},
    "a clip range that falls in vars()": {"heading": 'vars(args)["clip_coef"] *= 0.9'},
    "a clip range that falls in the rollout": {"stepped": "args.clip_coef *= 0.99"},
    "a clip range that falls in the update": {"optimized": "args.clip_coef *= 0.99"},
    "a discount that grows": {"estimated": "args.gamma = 0.5 + 0.5 * args.gamma"},
    "a discount by a function": {
        "functions": "def discount(options):\n    options.gamma *= 0.9\n\n\n",
        "collected": "discount(args)",
    },
    "options that are another object": {
        "stdlib": "import copy",
        "heading": "args = copy.copy(args)\nargs.gamma *= 0.9",
    },
    "more epochs": {"heading": "args.update_epochs = 1 + iteration % 2"},
    "smaller minibatches": {"heading": "args.minibatch_size = 4 if iteration < 2 else 8"},
    "minibatches that do not divide the batch": {"heading": "args.minibatch_size = 5"},
    "fewer steps": {"heading": "args.num_steps = 8"},
    "a rollout that ends early": {"stepped": "if iteration == 4 and step == 3:\n    break"},
    "a step that is left out": {"storing": "if iteration == 5 and step == 3:\n    continue"},
    "an update that is left out": {"begun": "if iteration == 2 and start == 0:\n    continue"},
    "an epoch that ends early": {"optimized": "if v_loss.item() < 0.1:\n    break"},
    "epochs that end early": {"epoch_done": "if v_loss.item() < 1:\n    break"},
    "a target for the divergence": {
        "optimized": "kl = (b_logprobs[mb_inds] - newlogprob).mean()",
        "epoch_done": "if kl.item() > 0.001:\n    break",
    },
    "a loss that is looked at": {"optimized": "if float(loss) > 1:\n    print('high', float(loss))"},
    "a metric in a list of tensors": {
        "functions": "LOSSES = []\n\n\n",
        "optimized": "LOSSES.append(loss)",
        "reported": "print(float(sum(LOSSES)))",
    },
    "a metric in a dictionary of lists": {
        "functions": "import collections\n\nLOSSES = collections.defaultdict(list)\n\n\n",
        "optimized": 'LOSSES["loss"].append(loss.item())',
        "reported": 'print(sum(LOSSES["loss"]))',
    },
    "a running mean of a loss": {
        "looping": "smooth = 0.0",
        "optimized": "smooth = 0.9 * smooth + 0.1 * loss.item()",
        "reported": "print(smooth)",
    },
    "a running mean that is part of the loss": {
        "looping": "smooth = 0.0",
        "begun": "b_returns = b_returns - 0.01 * smooth",
        "optimized": "smooth = 0.9 * smooth + 0.1 * v_loss.item()",
    },
    "an accumulated gradient": {
        "optimize": "loss.backward()\nif end % 8 == 0:\n    optimizer.step()\n    optimizer.zero_grad()\nprint(end)"
    },
    "gradients that are looked at": {"optimized": "print(float(agent.actor[0].weight.grad.sum()))"},
    "gradients before the step": {
        "optimize": "optimizer.zero_grad()\nloss.backward()\n"
        "print(sum(float(p.grad.sum()) for p in agent.parameters()))\noptimizer.step()"
    },
    "a graph that is kept": {
        "optimize": "optimizer.zero_grad()\nloss.backward(retain_graph=True)\nloss.backward()\noptimizer.step()"
    },
    "a penalty of the gradients": {
        "optimize": "optimizer.zero_grad()\n"
        "grads = torch.autograd.grad(loss, agent.actor.parameters(), create_graph=True)\n"
        "(loss + 0.01 * sum((g**2).sum() for g in grads)).backward()\noptimizer.step()"
    },
    "anomaly detection": {"looping": "torch.autograd.set_detect_anomaly(True)"},
    "gradients switched off and on": {
        "collected": "torch.set_grad_enabled(False)",
        "estimated": "torch.set_grad_enabled(True)",
    },
    "another default dtype": {
        "collected": "torch.set_default_dtype(torch.float64)",
        "estimated": "torch.set_default_dtype(torch.float32)",
    },
    "observations by an environment that keeps its array": {
        "functions": """
class Same(Envs):
    def step(self, action):
        super().step(action)
        return self.state, np.ones(len(self.state)), np.zeros(len(self.state)), {}


""",
        "begin": "envs = Same(args.num_envs)\n" + PARTS["begin"],
    },
    "rewards by an environment that keeps its array": {
        "functions": """
class Same(Envs):
    def step(self, action):
        state, reward, done, info = super().step(action)
        if not hasattr(self, "reward"):
            self.reward, self.done = reward, done
        self.reward[:], self.done[:] = reward, done
        return state, self.reward, self.done, info


""",
        "begin": "envs = Same(args.num_envs)\n" + PARTS["begin"],
    },
    "rewards of float32": {
        "functions": """
class Single(Envs):
    def step(self, action):
        state, reward, done, info = super().step(action)
        return state, reward.astype(np.float32), done, info


""",
        "begin": "envs = Single(args.num_envs)\n" + PARTS["begin"],
    },
    "rewards in a list": {
        "functions": """
class Listed(Envs):
    def step(self, action):
        state, reward, done, info = super().step(action)
        return state, reward.tolist(), done.tolist(), info


""",
        "begin": "envs = Listed(args.num_envs)\n" + PARTS["begin"],
    },
    "observations of float64": {
        "functions": """
class Double(Envs):
    def step(self, action):
        state, reward, done, info = super().step(action)
        return state.astype(np.float64) / 3, reward, done, info


""",
        "begin": "envs = Double(args.num_envs)\n" + PARTS["begin"],
    },
    "an environment that reads the action later": {
        "functions": """
class Late(Envs):
    last = 0

    def step(self, action):
        result = super().step(action + self.last)
        self.last = action
        return result


""",
        "begin": "envs = Late(args.num_envs)\n" + PARTS["begin"],
    },
    "an environment that changes the action": {
        "functions": """
class Greedy(Envs):
    def step(self, action):
        result = super().step(action)
        action[:] = 0
        return result


""",
        "begin": "envs = Greedy(args.num_envs)\n" + PARTS["begin"],
    },
    "an environment that draws from torch": {
        "functions": """
class Noisy(Envs):
    def step(self, action):
        state, reward, done, info = super().step(action)
        return state, reward + torch.rand(len(reward)).numpy(), done, info


""",
        "begin": "envs = Noisy(args.num_envs)\n" + PARTS["begin"],
    },
    "a bonus that the rollout computes": {"stepped": "rewards[step] += 0.1 * (action == 1)"},
    "rewards that are scaled behind the rollout": {"collected": "rewards *= 0.1"},
    "rewards that are normalised behind the rollout": {
        "collected": "rewards = (rewards - rewards.mean()) / rewards.std()"
    },
    "values of the step before": {"stepped": "if step > 0:\n    rewards[step] += 0.1 * values[step - 1]"},
    "the last turn's rewards": {"storing": "next_obs = next_obs + 0.01 * rewards[step].mean()"},
    "buffers that are set back": {"heading": "rewards.zero_()\nvalues.fill_(0)"},
    "buffers that are made anew": {"heading": "rewards = torch.zeros_like(rewards)"},
    "buffers under two names": {"looping": "gains = rewards", "collected": "gains *= 0.5"},
    "two buffers of one memory": {"looping": "values = logprobs", "reported": "print(values.sum().item())"},
    "advantages that carry over": {
        "estimated": "if iteration > 1:\n    advantages = 0.9 * advantages + 0.1 * old\nold = advantages"
    },
    "a value of the last turn": {"reported": "if iteration > 1:\n    print(float(last))\nlast = v_loss"},
    "names that are deleted": {"reported": "del b_obs, b_actions, next_value"},
    "locals that are looked at": {"reported": "print(len(locals()) > 3)"},
    "a name of the module that is set": {"reported": 'globals()["bonus"] = iteration\nprint(bonus)'},
    "text that is evaluated": {"reported": 'print(eval("iteration + global_step"))'},
    "text that is executed": {"heading": 'exec("args.clip_coef *= 0.9")'},
    "a signal between the turns": {"stdlib": "import gc", "reported": "gc.collect()\nprint(len(gc.garbage))"},
    "a try around the step": {"stepped": "try:\n    rewards[step] *= 0.5\nfinally:\n    args.clip_coef *= 0.99"},
    "an assertion": {"optimized": "assert torch.isfinite(loss), 'the loss is gone'"},
    "a warning": {"stdlib": "import warnings", "optimized": "if loss.item() > 0:\n    warnings.warn('high')"},
    "a match statement": {
        "begun": "match epoch:\n    case 0:\n        args.clip_coef = 0.2\n    case _:\n        args.clip_coef = 0.1"
    },
    "a walrus": {"optimized": "if (n := float(loss)) > 0:\n    print(n)"},
    "a while loop around the step": {"stepped": "tries = 0\nwhile tries < 2:\n    tries += 1\nrewards[step] += tries"},
    "an async helper": {
        "stdlib": "import asyncio",
        "functions": "async def waited(x):\n    return 0.5 * x\n\n\n",
        "stepped": "rewards[step] = asyncio.run(waited(rewards[step]))",
    },
}
"""By title: what goes into the holes of reaches.py, and other parts."""
