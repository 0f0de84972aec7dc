"""Several optimizers, schedules, scaled or replaced gradients, steps of another kind."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import Variation

ACTOR_AND_CRITIC = (
    "optimizer = optim.Adam(agent.actor.parameters(), lr=args.learning_rate)\n"
    "critic_optimizer = optim.Adam(agent.critic.parameters(), lr=args.learning_rate)"
)

VARIATIONS = [
    Variation(
        "a Lagrange multiplier with an optimizer that is stepped once per rollout",
        {
            "optimizer": PARTS["optimizer"]
            + "\npenalty = torch.tensor(0.5, requires_grad=True)\npenalty_optimizer = optim.Adam([penalty], lr=0.1)",
            "flatten": PARTS["flatten"]
            + """
                penalty_loss = -penalty * (float(rewards.mean()) - 0.5)
                penalty_optimizer.zero_grad()
                penalty_loss.backward()
                penalty_optimizer.step()
            """.replace("\n                ", "\n"),
            "minibatch": edited("minibatch", "- 0.01 *", "- penalty.detach() * 0.01 *"),
            "report": PARTS["report"] + "\nprint(penalty.item())",
        },
        {},
    ),
    Variation(
        "two optimizers under one loss, cleared after their steps",
        {
            "optimizer": ACTOR_AND_CRITIC,
            "anneal": "",
            "optimize": """
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                critic_optimizer.step()
                optimizer.zero_grad()
                critic_optimizer.zero_grad()
            """,
        },
    ),
    Variation(
        "two optimizers, and two losses one after the other",
        {
            "optimizer": ACTOR_AND_CRITIC,
            "anneal": "",
            "optimize": """
                critic_optimizer.zero_grad()
                optimizer.zero_grad()
                pg_loss.backward(retain_graph=True)
                v_loss.backward()
                optimizer.step()
                critic_optimizer.step()
            """,
        },
    ),
    Variation(
        "mixed precision with a GradScaler",
        {
            "make_agent": PARTS["make_agent"] + '\nscaler = torch.amp.GradScaler("cpu", enabled=True)',
            "learn": "with torch.autocast(device.type, dtype=torch.bfloat16):\n    <forward>\n<optimize>",
            "forward": PARTS["minibatch"].replace("\n<optimize>", ""),
            "optimize": """
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
            """,
        },
        {"one-graph": "step() on line", "tensor-lr": "update() is not compiled"},
    ),
    Variation(
        "a scheduler per iteration",
        {
            "optimizer": PARTS["optimizer"]
            + "\nscheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / args.num_iterations)",
            "anneal": "",
            "report": edited("report", 'optimizer.param_groups[0]["lr"]', "scheduler.get_last_lr()[0]")
            + "\nscheduler.step()",
        },
    ),
    Variation(
        "a scheduler per minibatch",
        {
            "optimizer": PARTS["optimizer"]
            + "\nscheduler = optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=20)",
            "anneal": "",
            "optimize": PARTS["optimize"] + "\nscheduler.step()",
        },
    ),
    Variation(
        "annealed entropy and clip coefficients",
        {
            "anneal": PARTS["anneal"] + "\nent_coef = 0.01 * frac\nclip_now = max(args.clip_coef * frac, 0.05)",
            "minibatch": PARTS["minibatch"].replace("0.01 *", "ent_coef *").replace("args.clip_coef", "clip_now"),
        },
    ),
    Variation(
        "a line search that writes parameters",
        {
            "optimize": PARTS["optimize"]
            + """
old = [p.detach().clone() for p in agent.parameters()]
for shrink in (1.0, 0.5, 0.25):
    with torch.no_grad():
        for p, o in zip(agent.parameters(), old):
            p.copy_(o + shrink * 0.01 * p.grad)
        trial = (agent.get_value(b_obs[mb_inds]).view(-1) - b_returns[mb_inds]).pow(2).mean()
    if trial < v_loss:
        break
""",
        },
        {"one-graph": "uses gradients outside of the minibatch too"},
    ),
    Variation(
        "an optimizer that is made anew in the training",
        {"head": "if iteration == 2:\n    <remake>", "remake": PARTS["optimizer"]},
        {
            "tensor-lr": "makes it again",
            "one-graph": "is made more than once",
            "evaluate-once": "binds optimizer",
            "cudagraphs": "binds optimizer",
        },
    ),
    Variation(
        "an optimizer with modes of its own",
        {
            "functions": """
                class Averaging(optim.Adam):
                    def train(self):
                        self.training = True

                    def eval(self):
                        self.training = False


            """,
            "optimizer": edited("optimizer", "optim.Adam", "Averaging"),
            "head": "optimizer.eval()",
            "flatten": PARTS["flatten"] + "\noptimizer.train()",
        },
        {
            "tensor-lr": "not known to accept a tensor learning rate",
            "one-graph": "may not be traceable",
            "evaluate-once": "gives agent.parameters() to Averaging()",
            "cudagraphs": "gives agent.parameters() to Averaging()",
        },
    ),
    Variation(
        "gradients saved, changed and restored between two backward passes",
        {
            "optimize": """
                optimizer.zero_grad()
                v_loss.backward(retain_graph=True)
                saved = [None if p.grad is None else p.grad.clone() for p in agent.parameters()]
                optimizer.zero_grad()
                loss.backward()
                for p, g in zip(agent.parameters(), saved):
                    if g is not None:
                        p.grad = p.grad - 0.1 * g
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
            """,
        },
        {"one-graph": "uses single gradients"},
    ),
]
