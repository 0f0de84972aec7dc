from transformer.diff.outline import name_lines, outline, split_lines

SOURCE = '''\
import os

@first
@second(
    1,
)
def outer(
    a,
):
    # why
    x = [
        a,
    ]

    class Inner:
        def method(self):
            """Two
            lines."""
            return x
    if (a and
            x):
        pass
    return x
'''


def test_lines_end_only_where_git_ends_them():
    assert split_lines("a\r\nb\x0cc\u2028d\n\ne") == ["a\r\n", "b\x0cc\u2028d\n", "\n", "e"]
    assert split_lines("") == []
    assert outline("a = 1\r\nb = 2").lines == ("a = 1", "b = 2")


def test_each_line_knows_its_function():
    scopes = dict(zip(outline(SOURCE).lines, outline(SOURCE).scopes, strict=True))
    assert scopes["import os"] == ""
    assert scopes["@first"] == scopes["def outer("] == scopes["    return x"] == "outer"
    assert scopes["    class Inner:"] == "outer.Inner"
    assert scopes["            return x"] == "outer.Inner.method"


def test_units_are_statements_and_headers():
    found = outline(SOURCE)

    def unit(text):
        lines = found.unit_range(found.lines.index(text))
        return [found.lines[i].strip() for i in lines]

    assert unit("    a,") == ["def outer(", "a,", "):"]
    assert unit("    # why") == ["# why"]
    assert unit("        a,") == ["x = [", "a,", "]"]
    assert unit('            lines."""') == ['"""Two', 'lines."""']
    assert unit("            x):") == ["if (a and", "x):"]
    assert unit("        pass") == ["pass"]


def test_text_without_structure_still_has_lines():
    for source in ("def broken(:\n    x\n", "a = 1\rb = 2\n"):
        found = outline(source)
        assert found.units == tuple(range(len(found.lines)))
        assert set(found.scopes) == {""}


def test_a_byte_order_mark_hides_no_structure():
    assert outline("\ufeffdef f():\n    pass\n").scopes == ("f", "f")


def test_long_chains_of_branches_have_structure():
    branches = "".join(f"    elif a == {i}:\n        pass\n" for i in range(1500))
    found = outline(f"def f(a):\n    if a:\n        pass\n{branches}")
    assert set(found.scopes) == {"f"}


def test_ranges_are_named_as_people_count():
    assert name_lines(range(2, 7)) == "lines 3-7"
    assert name_lines(range(2, 3)) == "line 3"
