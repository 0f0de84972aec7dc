"""Training, its phases and its loss in functions, and names that loops bind."""

from __future__ import annotations

from scripts import PARTS

from variations.base import Variation

HANDED_OVER = """
if __name__ == "__main__":
    options = parse_args()
    torch.manual_seed(3)
    network = Agent().to("cpu")
    adam = optim.Adam(network.parameters(), lr=options.learning_rate, eps=1e-5)
    learn(network, adam, options, device="cpu")
"""

LOSS = {
    "functions": """
        def ppo_loss(agent, b_obs, b_actions, b_logprobs, b_advantages, b_returns, mb_inds, clipfracs):
            <computation>
            return loss, v_loss


    """,
    "computation": PARTS["minibatch"].removesuffix("\n<optimize>"),
    "learn": "loss, v_loss = ppo_loss(agent, b_obs, b_actions, b_logprobs, b_advantages, b_returns, mb_inds, "
    "clipfracs)\n<optimize>",
}

DECIDING = """
    def get_action(observations):
        obs = torch.from_numpy(observations)
        probs = Categorical(logits=agent.actor(obs))
        action = probs.sample()
        return action.numpy(), probs.log_prob(action).detach(), agent.critic(obs).detach()


"""

VARIATIONS = [
    Variation(
        "gradients of acting are recorded, and their values alone are kept",
        {
            "act": """
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten().detach()
            """,
            "record": "actions[step] = action\nlogprobs[step] = logprob.data",
        },
        {"acting": None},
    ),
    Variation(
        "a function decides on the actions",
        {
            "functions": DECIDING,
            "act": "action, logprob, value = get_action(next_obs.numpy())\nvalues[step] = value.flatten()",
            "record": "actions[step] = torch.from_numpy(action)\nlogprobs[step] = logprob",
            "step": PARTS["step"].replace("action.cpu().numpy()", "action"),
        },
        {
            "acting": "no call of a trained network in the training loop itself chooses the actions",
            "acting-method": None,
            "inline": None,
            "policy": "no call of a trained network in the training loop itself chooses the actions",
            "sampling": "no call of a network in the training loop is known to draw from a distribution",
        },
    ),
    Variation(
        "training in a function that is handed its network and its optimizer",
        {
            "main": "def learn(agent, optimizer, args, device):",
            "parse": "print('training')",
            "setup": "device = torch.device(device)",
            "make_agent": "",
            "optimizer": "",
            "end": HANDED_OVER,
        },
        {"inline": None},
    ),
    Variation(
        "phases in functions",
        {
            "functions": """
                def collect(envs, agent, obs, actions, logprobs, rewards, dones, values, start, next_done, steps_done):
                    next_obs = start
                    <rollout>
                    return next_obs, next_done, steps_done

                def train(agent, optimizer, obs, actions, logprobs, advantages, returns, clip=0.2):
                    <flatten_inside>
                    <epochs>
                    return v_loss.item(), clipfracs


            """,
            "rollout": PARTS["rollout"].replace("global_step", "steps_done"),
            "flatten_inside": PARTS["flatten"],
            "flatten": "",
            "learn": PARTS["minibatch"].replace("args.clip_coef", "clip"),
            "metrics": PARTS["metrics"].replace("args.clip_coef", "clip"),
            "collect": "next_obs, next_done, global_step = collect(envs, agent, obs, actions, logprobs, rewards, "
            "dones, values, next_obs, next_done, global_step)",
            "epochs": PARTS["minibatches"],
            "minibatches": "",
            "report": "value_loss, clipfracs = train(agent, optimizer, obs, actions, logprobs, advantages, returns, "
            "clip=args.clip_coef)\n" + PARTS["report"].replace("v_loss.item()", "value_loss"),
        },
        {"inline": None},
    ),
    Variation("a loss in a function", LOSS, {"inline": None}),
    Variation(
        "a loss in a function that must stay one",
        {**LOSS, "end": "print(ppo_loss.__name__)"},
        {
            "shuffle": "uses mb_inds for more than indexing a tensor",
            "deferred-sync": "no tensor is read as a number before the optimizer's step that could be read after it",
        },
    ),
    Variation(
        "one block of no_grad around rollout and advantages",
        {
            "collect": "with torch.no_grad():\n    <rollout>\n    <estimation>",
            "estimation": PARTS["advantages"].partition("\n")[2],
            "estimate": "",
        },
        {
            **dict.fromkeys(("storage", "rollout"), "the rollout loop is inside another statement"),
            "gae": "is not between rollout and update",
        },
    ),
    Variation(
        "names that only some turns of the loops set",
        {
            "head": "if iteration > 1:\n    bonus = 0.5",
            "step": PARTS["step"]
            + "\nif done.any():\n    last = global_step\nif iteration > 1:\n    rewards[step] *= bonus",
            "metrics": PARTS["metrics"] + "\nif iteration > 1:\n    spread, worst = ratio.std(), bonus",
            "report": PARTS["report"]
            + "\nif iteration > 1:\n    print(last if args.seed > 5 else 0, spread.item(), worst)",
        },
    ),
]
