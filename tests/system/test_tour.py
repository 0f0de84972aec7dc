"""The notebook in docs/ runs from first cell to last, and its scripts print the same."""

from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


def test_nothing_that_was_run_is_kept() -> None:
    nbformat = pytest.importorskip("nbformat")
    assert not any(cell.get("outputs") for cell in nbformat.read(TOUR, 4).cells)


@pytest.mark.slow
def test_the_tour_runs(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(TOUR, 4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = first.source.replace("Path.cwd().resolve()", f"Path({str(TOUR)!r})")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", []))
    assert "transforms applied" in told
    assert "gae-hoist" in told
    assert "EQUAL up to flags on, not compiled" in told
    drawn = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(drawn) == 1
