"""Networks that are changed, watched, or keep something of what they see."""

from __future__ import annotations

from scripts import PARTS

from variations.base import Variation

VARIATIONS = [
    Variation(
        "a forward hook that changes what a layer returns",
        {"before_loop": "agent.actor[0].register_forward_hook(lambda module, given, result: result * 0.5)"},
        {"evaluate-once": "registers a hook", "cudagraphs": "registers a hook"},
    ),
    Variation(
        "weights rescaled through .data",
        {
            "flatten": PARTS["flatten"]
            + """
scale = b_returns.std() + 1e-5
agent.critic[-1].weight.data = agent.critic[-1].weight.data / scale
agent.critic[-1].bias.data = agent.critic[-1].bias.data / scale
b_returns = b_returns / scale
""",
        },
        {"evaluate-once": "sets agent.critic[-1].weight.data", "cudagraphs": "sets agent.critic[-1].weight.data"},
    ),
    Variation(
        "a module that keeps statistics of what it sees",
        {
            "agent": PARTS["agent"].replace("nn.Linear(2, 8)", "Normalizer(), nn.Linear(2, 8)"),
            "args": """
                class Normalizer(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.register_buffer("mean", torch.zeros(2))

                    def forward(self, x):
                        if self.training:
                            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
                        return x - self.mean


                def parse_args():
                    <parser>
                    return parser.parse_args()
            """,
        },
        {
            "evaluate-once": "which may mix the rows",
            "one-graph": "not known which parameters the loss",  # through a layer of the script's own
            "cudagraphs": "uses self.training",
        },
    ),
    Variation(
        "a history on the agent",
        {
            "agent": PARTS["agent"]
            .replace("super().__init__()\n", "super().__init__()\n        self.history = []\n")
            .replace(
                "            action = probs.sample()",
                "            action = probs.sample()\n            self.history.append(x)",
            ),
            "act": PARTS["act"],
            "report": PARTS["report"]
            + "\nprint(len(agent.history), sum(h.sum().item() for h in agent.history))\nagent.history.clear()",
        },
        {
            "evaluate-once": "cannot take the actions",
            "one-graph": "calls agent.history.clear()",
            "cudagraphs": "keeps self.history",
        },
    ),
]
