"""Chooses scripts for a list of benchmarks/wild.py from checkouts of other people's repositories.

    python benchmarks/wild_choose.py DIRECTORY CLEANRL --list NAME

DIRECTORY has the checkouts as owner/name; CLEANRL is a checkout of cleanrl's repository with its history. From each
repository, the first files by path are taken that step an environment and an optimizer, and are of the list's kind.
Left out are repositories that are already in a list, and files that equal, except for whitespace, a file in any commit
of cleanrl or a file taken before. The entries are printed; nothing is converted.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import wild

PPO_NAMES = (
    "b_inds mb_inds clipfracs num_minibatches update_epochs b_obs b_logprobs b_returns b_advantages b_values "
    "get_action_and_value lastgaelam nextnonterminal nextvalues newlogprob logratio mb_advantages clip_coef"
).split()
"""cleanrl's names for PPO's variables of a rollout."""
REPLAY_NAMES = (
    "learning_starts train_frequency target_network_frequency policy_frequency q_network target_network qf1 qf1_target "
    "qf1_a_values qf_loss td_target exploration_fraction exploration_noise linear_schedule start_e end_e q_optimizer "
    "actor_optimizer target_entropy handle_timeout_termination"
).split()
"""cleanrl's names for the variables that off-policy training needs."""
ENVIRONMENT = re.compile(r"=\s*\(?\s*[\w.]*env\w*(\[[^\]\n]*\])?(\.\w*env\w*)?\.step\(", re.IGNORECASE)
OPTIMIZER = re.compile(r"\b[\w.]*opt(im\w*|imizer\w*|_\w+)?(\[[^\]\n]*\])?\.step\(", re.IGNORECASE)
TORCH = re.compile(r"^\s*(import torch|from torch\b)", re.MULTILINE)
CLIPPED = re.compile(r"\bclamp\(|\bclip\(")
RATIO = re.compile(r"\bexp\(|\bratio", re.IGNORECASE)
SKIPPED = re.compile(r"(^|/)(site-packages|venv|\.venv|env/lib|node_modules)/")
ENOUGH = 3
"""The number of cleanrl's names from which a script counts as a descendant."""


def descends(text: str) -> bool:
    """Whether a text uses enough of cleanrl's names for PPO."""
    return _names(text, PPO_NAMES) >= ENOUGH


def replays(text: str) -> bool:
    """Whether a text uses enough of cleanrl's names for off-policy training, and not of those for PPO."""
    return _names(text, REPLAY_NAMES) >= ENOUGH and not descends(text)


def own(text: str) -> bool:
    """Whether a text mentions PPO and a clipped ratio, and is no descendant of cleanrl."""
    named = re.search("ppo|proximal policy", text, re.IGNORECASE) and CLIPPED.search(text) and RATIO.search(text)
    return bool(named) and not descends(text) and not replays(text)


KINDS: dict[str, tuple[int, Callable[[str], bool]]] = {
    "wild": (3, descends),
    "wild_off_policy": (2, replays),
    "wild_other": (2, own),
}
"""The lists, each with the number of scripts that it takes per repository, and a test for their kind."""


def _names(text: str, names: list[str]) -> int:
    return len(set(re.findall(r"\w+", text)).intersection(names))


def digest(text: str) -> str:
    """A digest of a text without whitespace."""
    return hashlib.sha256("".join(text.split()).encode()).hexdigest()


def git(root: Path, *command: str) -> bytes:
    """The output of git in a repository."""
    return subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True).stdout


def of_history(root: Path) -> Iterator[str]:
    """The digest of every Python file of every commit of a repository."""
    listed = git(root, "log", "--all", "--format=", "--raw", "--no-abbrev", "--no-renames", "-m", "--", "*.py")
    blobs = {line.split()[3] for line in listed.decode().splitlines() if line.startswith(":")} - {"0" * 40}
    told = subprocess.run(
        ["git", "-C", str(root), "cat-file", "--batch"], input="\n".join(sorted(blobs)).encode(), capture_output=True
    ).stdout
    at = 0
    while at < len(told):
        begin = told.index(b"\n", at) + 1
        end = begin + int(told[at:begin].split()[2])
        yield digest(told[begin:end].decode("utf-8", "replace"))
        at = end + 1


def trains(text: str) -> bool:
    """Whether a file steps an environment and an optimizer of torch."""
    return bool(TORCH.search(text) and ENVIRONMENT.search(text) and OPTIMIZER.search(text))


def chosen(root: Path, name: str, known: set[str]) -> Iterator[str]:
    """The paths that a list takes from one repository; their digests are added to `known`."""
    left, of_kind = KINDS[name]
    for file in sorted(git(root, "ls-files", "-z", "--", "*.py").decode("utf-8", "replace").split("\0")):
        path = root / file
        if not left or not file or SKIPPED.search(file) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if trains(text) and of_kind(f"{file}\n{text}") and digest(text) not in known:
            known.add(digest(text))
            left -= 1
            yield file


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("cleanrl", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--list", "name", type=click.Choice(tuple(KINDS)), required=True, help="Of which kind.")
@click.option("--holdout", default="", help="The day to note for each.")
def main(directory: Path, cleanrl: Path, name: str, holdout: str) -> None:
    """Print the entries that a list would get from the repositories in DIRECTORY."""
    listed = [entry for other in wild.LISTS for entry in wild.read_list(wild.HERE / "lists" / f"{other}.toml")]
    had = {entry.repository for entry in listed}
    known, scripts = set(of_history(cleanrl)), []
    for path in (directory / entry.repository / entry.path for entry in listed):
        if path.is_file():
            known.add(digest(path.read_text(encoding="utf-8", errors="replace")))
    for root in sorted((p.parent for p in directory.glob("*/*/.git")), key=lambda p: str(p).lower()):
        repository = "/".join(root.parts[-2:])
        if repository not in had:
            commit = git(root, "rev-parse", "HEAD").decode().strip()
            for path in chosen(root, name, known):
                scripts.append(wild.Script(repository=repository, commit=commit, path=path, holdout=holdout))
    click.echo(wild.listed(scripts, name))


if __name__ == "__main__":
    main()
