from pathlib import Path

import pytest
from running import Runner

STUB = """\
import __main__, os
assert __main__.__file__.endswith("ppo.py"), __main__
print("torch loads:", os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.fixture
def stubbed(runner: Runner) -> Runner:
    """A runner with a stub of torch that reports when it is loaded; no other package is installed."""
    torch = runner.folder / "site" / "torch"
    for name in ("", "nn", "optim", "distributions", "distributions/categorical"):
        (torch / name).mkdir(parents=True)
        (torch / name / "__init__.py").write_text("class Module: pass\nclass Categorical: pass\n")
    (torch / "__init__.py").write_text(STUB)
    (torch / "compiler.py").write_text("")
    (torch.parent / "tensordict").mkdir()
    (torch.parent / "tensordict" / "__init__.py").write_text("TensorDict = None\n")
    (torch.parent / "tensordict" / "nn.py").write_text("CudaGraphModule = None\n")
    (torch.parent / "tqdm.py").write_text("")
    runner.variables["PYTHONPATH"] = str(torch.parent)
    return runner
