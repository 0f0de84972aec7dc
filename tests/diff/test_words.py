from hypothesis import given
from hypothesis import strategies as st

from transformer.diff.words import changed_spans, similarity


def marked(old, new):
    """Both texts, with brackets around changed words."""
    result = []
    for lines, spans in zip((old, new), changed_spans(old, new), strict=True):
        text = []
        for line, row in zip(lines, spans, strict=True):
            for start, end in reversed(row):
                line = f"{line[:start]}[{line[start:end]}]{line[end:]}"
            text.append(line)
        result.append(text)
    return result


def test_only_the_words_that_differ_are_marked():
    assert marked(["lr = rate * 0.9"], ["lr = torch.tensor(rate) * 0.9"]) == [
        ["lr = rate * 0.9"],
        ["lr = [torch.tensor(]rate[)] * 0.9"],
    ]


def test_neighbouring_words_make_one_mark():
    assert marked(["x = a + b"], ["x = c - d"]) == [["x = [a + b]"], ["x = [c - d]"]]


def test_a_lone_sign_between_changes_is_no_anchor():
    assert marked(["a.b(c)"], ["d.e(c)"]) == [["[a.b](c)"], ["[d.e](c)"]]


def test_a_statement_wrapped_anew_has_no_marks():
    assert marked(["f(", "    a,", "    b)"], ["f(a, b)"]) == [["f(", "    a,", "    b)"], ["f(a, b)"]]


def test_a_word_changed_while_wrapping_is_marked_where_it_stands():
    assert marked(["f(a, bb)"], ["f(", "    a,", "    cc)"]) == [["f(a, [bb])"], ["f(", "    a,", "    [cc])"]]


def test_similarity_ignores_white_space_and_order():
    assert similarity("a = b + c", "  b=c+a") == 1.0
    assert similarity("a", "b") == 0.0
    assert similarity("", "  ") == 1.0
    assert 0 < similarity("alpha beta", "beta gamma") < 1


@given(st.lists(st.text("ab (.", max_size=8), max_size=4), st.lists(st.text("ab (.", max_size=8), max_size=4))
def test_what_is_not_marked_is_equal(old, new):
    def rest(lines, spans):
        kept = [
            "".join(c for i, c in enumerate(line) if not any(start <= i < end for start, end in row))
            for line, row in zip(lines, spans, strict=True)
        ]
        return "".join("".join(kept).split())

    old_spans, new_spans = changed_spans(old, new)
    assert rest(old, old_spans) == rest(new, new_spans)
