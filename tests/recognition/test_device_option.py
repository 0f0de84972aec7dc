"""The arguments that put a script on a CUDA device."""

import pytest

from transformer.recognition.arguments import cuda_arguments
from transformer.syntax.tree import Tree


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ('p.add_argument("--device", default="cpu")\ntorch.device(args.device)', ["--device", "cuda"]),
        ('p.add_argument("-d", "--train-on", default="cpu")\ntorch.device(args.train_on)', ["--train-on", "cuda"]),
        ("class Args:\n    device: str = 'cpu'\n\ntorch.device(args.device)", ["--device", "cuda"]),
        ('p.add_argument("--device", default="cuda")\ntorch.device(args.device)', []),
        ('p.add_argument("--device", default="cpu")\ntorch.device("cuda" if args.device else "cpu")', []),
        ('p.add_argument("--device", default="cpu")\nx.device(args.device)', []),
        ("torch.device(args.device)", []),
    ],
)
def test_options_whose_default_is_the_cpu(code: str, arguments: list[str]) -> None:
    assert cuda_arguments(Tree(f"import torch\n{code}\n")) == arguments
