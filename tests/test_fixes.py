"""An edit does what it is called, keeps every comment, or isn't offered."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.finding import Edit, Span
from analyzers.fixes import (
    add_keyword,
    delete_statement,
    insert_after,
    insert_before,
    remove_keyword,
    rename_call,
    replace_expression,
    set_keyword,
    wrap_statements,
)
from analyzers.proof import apply_edits
from analyzers.source import Source, read_source
from analyzers.tokens import comments

Make = Callable[[Source, Span], Edit | None]
REFUSED = "refused"


def read(text: str) -> Source:
    source = read_source("module.py", text)
    assert isinstance(source, Source), source
    return source


def spans(source: Source, kind: type[ast.AST]) -> Iterator[Span]:
    return (source.span(node) for node in ast.walk(source.tree) if isinstance(node, kind))


def with_call(text: str, make: Make) -> str:
    """The text after an edit of its first call."""
    source = read(text)
    edit = make(source, next(spans(source, ast.Call)))
    return apply_edits(text, [edit]) if edit else REFUSED


def with_statement(text: str, make: Make) -> str:
    """The text after an edit of the statement that begins with `here`."""
    source = read(text)
    at = next(span for span in spans(source, ast.stmt) if source.segment(span).startswith("here"))
    edit = make(source, at)
    return apply_edits(text, [edit]) if edit else REFUSED


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("x.to(d)", "x.to(d, k=True)", id="after an argument"),
        pytest.param("x.to()", "x.to(k=True)", id="no argument"),
        pytest.param("x.to(d,)", "x.to(d, k=True,)", id="a trailing comma"),
        pytest.param("x.to( d )", "x.to( d, k=True )", id="blanks within"),
        pytest.param("f(*a)", "f(*a, k=True)", id="a starred argument"),
        pytest.param("f(**a)", REFUSED, id="keywords that may hold it"),
        pytest.param("f(k=False)", REFUSED, id="there already"),
        pytest.param("f(x for x in y)", REFUSED, id="a bare generator"),
        pytest.param(
            "f((x for x in y))", "f((x for x in y), k=True)", id="a generator in brackets"
        ),
        pytest.param("f(x := 1)", "f(x := 1, k=True)", id="a walrus"),
        pytest.param("f(lambda: 1)", "f(lambda: 1, k=True)", id="a lambda"),
        pytest.param("a = (x\n  .to(d))", "a = (x\n  .to(d, k=True))", id="in outer brackets"),
        pytest.param("x \\\n  .to(d)", "x \\\n  .to(d, k=True)", id="a continued line"),
        pytest.param("f'{x.to(d)}'", "f'{x.to(d, k=True)}'", id="in an f-string"),
        pytest.param("f(a, b)(c)", "f(a, b)(c, k=True)", id="the outer of two"),
        pytest.param("f(é)  # ü", "f(é, k=True)  # ü", id="wide characters"),
        pytest.param(
            "f(\n    a,\n    b,  # why\n)",
            "f(\n    a,\n    b,  # why\n    k=True,\n)",
            id="a line for each, a comment beside the last",
        ),
        pytest.param(
            "f(\r\n    a  # why\r\n)", "f(\r\n    a,  # why\r\n    k=True\r\n)", id="no comma, CRLF"
        ),
        pytest.param("f(\n    a, b\n)", "f(\n    a, b, k=True\n)", id="a line for all"),
        pytest.param("f(a,\n  b)", "f(a,\n  b, k=True)", id="a closing bracket beside the last"),
        pytest.param(
            "f(\n    a,\n    # end\n)", "f(\n    a,\n    # end\n    k=True,\n)", id="remark"
        ),
        pytest.param("f(\n  # none\n)", REFUSED, id="only a comment"),
    ],
)
def test_a_keyword_is_added(text: str, edited: str) -> None:
    assert with_call(text, lambda source, call: add_keyword(source, call, "k", "True")) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("f(a, k=1, b=2)", "f(a, k=True, b=2)", id="another value"),
        pytest.param("f(a)", "f(a, k=True)", id="added where it isn't there"),
        pytest.param("f(k = 1)", "f(k = True)", id="its blanks kept"),
        pytest.param(
            "f(\n    k=1,  # why\n    b=2,\n)", "f(\n    k=True,  # why\n    b=2,\n)", id="remark"
        ),
        pytest.param("f(k=(  # why\n  1))", REFUSED, id="a comment in the value"),
    ],
)
def test_a_keyword_is_set(text: str, edited: str) -> None:
    assert with_call(text, lambda source, call: set_keyword(source, call, "k", "True")) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("f(a, k=1)", "f(a)", id="the last"),
        pytest.param("f(k=1, a=2)", "f(a=2)", id="the first"),
        pytest.param("f(k=1)", "f()", id="the only one"),
        pytest.param("f(a, k=1,)", "f(a,)", id="a trailing comma"),
        pytest.param("f(\n    a,\n    k=1,\n)", "f(\n    a,\n)", id="a line for each"),
        pytest.param("f(\n    a,\n    k=1,  # why\n)", REFUSED, id="a comment beside it"),
        pytest.param("f(a)", REFUSED, id="not there"),
    ],
)
def test_a_keyword_is_removed(text: str, edited: str) -> None:
    assert with_call(text, lambda source, call: remove_keyword(source, call, "k")) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("torch.tensor(x)", "torch.as_tensor(x)", id="a function"),
        pytest.param("f(\n  a,  # why\n)", "torch.as_tensor(\n  a,  # why\n)", id="arguments kept"),
        pytest.param("(a  # why\n .b(c))", REFUSED, id="a comment in the name"),
    ],
)
def test_a_call_is_renamed(text: str, edited: str) -> None:
    renamed = with_call(text, lambda source, call: rename_call(source, call, "torch.as_tensor"))
    assert renamed == edited


@pytest.mark.parametrize(
    ("text", "new", "edited"),
    [
        pytest.param("y = f() * 2", "n", "y = n * 2", id="a name"),
        pytest.param("y = f() * 2", "a or b", "y = (a or b) * 2", id="in a product"),
        pytest.param("y = f()  # c", "a or b", "y = a or b  # c", id="on its own"),
        pytest.param("-f()", "a + b", "-(a + b)", id="behind a sign"),
        pytest.param("g(x, k=f())", "a if b else c", "g(x, k=a if b else c)", id="an argument"),
        pytest.param("y == f()", "a == b", "y == (a == b)", id="compared"),
        pytest.param(
            "z = 1 if f() else 3", "a if b else c", "z = 1 if (a if b else c) else 3", id="if"
        ),
        pytest.param("g(f().b, 1)", "a + b", "g((a + b).b, 1)", id="an attribute of it"),
        pytest.param(
            "(\n  f()\n  + 1)", "a or b", "(\n  (a or b)\n  + 1)", id="goes on in the next line"
        ),
        pytest.param("y = f()", "(a, b)", "y = (a, b)", id="a tuple in brackets"),
        pytest.param("y = f()", "a, b", "y = (a, b)", id="a tuple without"),
        pytest.param("y = f()", "lambda: 1", "y = (lambda: 1)", id="a lambda"),
        pytest.param("f'{f()}'", "a['b']", REFUSED, id="quotes in an f-string"),
        pytest.param("f'{f()}'", "a or b", "f'{(a or b)}'", id="in an f-string"),
        pytest.param("y = f(  # why\n)", "n", REFUSED, id="a comment within"),
        pytest.param("y = f()", "*a", REFUSED, id="not an expression"),
        pytest.param("y = f()", "a b", REFUSED, id="nonsense"),
    ],
)
def test_an_expression_is_replaced(text: str, new: str, edited: str) -> None:
    first = text.index("f()") if "f()" in text else text.index("f(")

    def make(source: Source, _: Span) -> Edit | None:
        call = next(s for s in spans(source, ast.Call) if source.offset(s.line, s.column) == first)
        return replace_expression(source, call, new)

    assert with_call(text, make) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("a()\nhere()\nb()\n", "a()\nb()\n", id="a line"),
        pytest.param("a()\nhere()", "a()\n", id="the last line, not ended"),
        pytest.param("here(\n  1,\n)\r\nb()\r\n", "b()\r\n", id="several lines"),
        pytest.param("\ufeffhere()\nb()\n", "\ufeffb()\n", id="behind a mark"),
        pytest.param("if a:\n    here()\n", "if a:\n    pass\n", id="alone in its block"),
        pytest.param("if a: here()\n", "if a: pass\n", id="alone beside its head"),
        pytest.param(
            "if a:\n  b()\nelse:\n  here()", "if a:\n  b()\nelse:\n  pass", id="alone in else"
        ),
        pytest.param("a(); here(); b()\n", "a(); b()\n", id="between semicolons"),
        pytest.param("here(); b()\n", "b()\n", id="before a semicolon"),
        pytest.param("if a: b(); here()\n", "if a: b()\n", id="behind a semicolon"),
        pytest.param("a()\nhere();\nb()\n", "a()\nb()\n", id="a semicolon of its own"),
        pytest.param("here(); \\\n  b()\n", REFUSED, id="a continued line"),
        pytest.param("here()  # why\nb()\n", REFUSED, id="a comment beside it"),
        pytest.param("# why\nhere()\nb()\n", "# why\nb()\n", id="a comment above it"),
        pytest.param("a(); here()  # why\n", REFUSED, id="a comment beside all of them"),
    ],
)
def test_a_statement_is_deleted(text: str, edited: str) -> None:
    assert with_statement(text, delete_statement) == edited


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param("here()\n", "w()\nhere()\n", "here()\nw()\n", id="a line"),
        pytest.param("here()", "w()\nhere()", "here()\nw()", id="a line that isn't ended"),
        pytest.param(
            "if a:\r\n\there()\r\n",
            "if a:\r\n\tw()\r\n\there()\r\n",
            "if a:\r\n\there()\r\n\tw()\r\n",
            id="in a block, tabs and CRLF",
        ),
        pytest.param("if a: here()\n", REFUSED, REFUSED, id="beside its head"),
        pytest.param("here(); b()\n", "w()\nhere(); b()\n", REFUSED, id="before a semicolon"),
        pytest.param("b(); here()\n", REFUSED, REFUSED, id="behind a semicolon"),
        pytest.param("if a: \\\n  here()\n", REFUSED, REFUSED, id="behind a continued line"),
        pytest.param(
            "here()  # why\n", "w()\nhere()  # why\n", "here()  # why\nw()\n", id="remark"
        ),
        pytest.param("here(\n 1)\n", "w()\nhere(\n 1)\n", "here(\n 1)\nw()\n", id="several lines"),
        pytest.param(
            "# hostside: ignore\nhere()\n",
            "w()\n# hostside: ignore\nhere()\n",
            "# hostside: ignore\nhere()\nw()\n",
            id="a comment that silences it stays beside it",
        ),
        pytest.param("\ufeffhere()\n", "\ufeffw()\nhere()\n", "\ufeffhere()\nw()\n", id="a mark"),
    ],
)
def test_lines_are_inserted(text: str, before: str, after: str) -> None:
    assert with_statement(text, lambda source, at: insert_before(source, at, "w()")) == before
    assert with_statement(text, lambda source, at: insert_after(source, at, "w()")) == after


def test_a_part_of_a_statement_stands_for_it() -> None:
    text = "for a in f(b):\n    c = g(d)\n"
    source = read(text)
    outer, inner = sorted(spans(source, ast.Call))
    edits = [insert_before(source, outer, "v()"), insert_after(source, inner, "w()")]
    expected = "v()\nfor a in f(b):\n    c = g(d)\n    w()\n"
    assert apply_edits(text, [edit for edit in edits if edit]) == expected
    assert delete_statement(source, inner) is None


def of_first(text: str, make: Make, kind: type[ast.AST] = ast.stmt) -> str:
    source = read(text)
    edit = make(source, next(spans(source, kind)))
    return apply_edits(text, [edit]) if edit else REFUSED


@pytest.mark.parametrize(
    ("text", "kind", "edited"),
    [
        pytest.param('"""Doc."""\na()\n', ast.Expr, REFUSED, id="not above a docstring"),
        pytest.param("from __future__ import a\n", ast.ImportFrom, REFUSED, id="nor __future__"),
        pytest.param(
            "@d\ndef f(): pass\n", ast.FunctionDef, "w()\n@d\ndef f(): pass\n", id="decorated"
        ),
    ],
)
def test_what_must_come_first_does(text: str, kind: type[ast.AST], edited: str) -> None:
    assert of_first(text, lambda source, at: insert_before(source, at, "w()"), kind) == edited


def test_nothing_is_inserted_before_elif() -> None:
    source = read("if a:\n    pass\nelif b:\n    pass\n")
    inner = list(spans(source, ast.If))[1]
    assert insert_before(source, inner, "w()") is None
    assert insert_after(source, inner, "w()") is None
    assert delete_statement(source, inner) is None


def test_nothing_is_inserted_where_it_would_not_run() -> None:
    text = "def f():\n    return 1\n"
    assert of_first(text, lambda source, at: insert_after(source, at, "w()"), ast.Return) == REFUSED


def test_several_lines_are_inserted_at_the_depth_of_the_statement() -> None:
    text = "if a:\n  here()\n"
    edited = with_statement(text, lambda s, at: insert_before(s, at, "if b:\n    c()\n\nd()"))
    assert edited == "if a:\n  if b:\n      c()\n\n  d()\n  here()\n"


def wrapped(text: str, first: int, last: int) -> str:
    """The text with statements of its innermost block put under a with-statement."""
    source = read(text)
    names = sorted(spans(source, ast.Expr))
    edit = wrap_statements(source, names[first], names[last], "with g():")
    return apply_edits(text, [edit]) if edit else REFUSED


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("a()\nb()\nc()\n", "with g():\n    a()\n    b()\nc()\n", id="two lines"),
        pytest.param(
            "if x:\n  a()\n\n  # why\n  b(\n1)\n",
            "if x:\n  with g():\n    a()\n\n    # why\n    b(\n  1)\n",
            id="indented by two, with an empty line and a comment",
        ),
        pytest.param(
            "if x:\r\n\ta()\r\n\tb()", "if x:\r\n\twith g():\r\n\t\ta()\r\n\t\tb()", id="tabs"
        ),
        pytest.param("a()\nb('''\n''')\n", REFUSED, id="a string over lines"),
        pytest.param("a()\nb(f'''\n{c}''')\n", REFUSED, id="an f-string over lines"),
        pytest.param("a(); b()\n", REFUSED, id="semicolons"),
        pytest.param("if x: a(); b()\n", REFUSED, id="beside a head"),
        pytest.param("if x:\n  a()\nb()\n", REFUSED, id="of two blocks"),
        pytest.param('"""Doc."""\nb()\n', REFUSED, id="a docstring"),
    ],
)
def test_statements_are_wrapped(text: str, edited: str) -> None:
    assert wrapped(text, 0, 1) == edited


ARGUMENT = st.sampled_from(
    [
        "a",
        "*a",
        "k=1",
        "j=2",
        "(x for x in y)",
        "lambda: 0",
        "f'{a!r}'",
        "a if b else c",
        "(yield)",
        "x := 1",
    ]
)
BLANK = st.sampled_from(["", " ", "\n    ", "\r\n  ", "  # why\n    ", "\n  # on its own\n  "])


@st.composite
def calls(draw: st.DrawFn) -> str:
    arguments = draw(st.lists(ARGUMENT, max_size=4, unique=True))
    arguments.sort(key=lambda argument: "=" in argument and ":" not in argument)
    parts = [draw(BLANK) + argument + draw(BLANK) for argument in arguments]
    comma = draw(st.sampled_from(["", ","])) if arguments else ""
    return f"r = f({','.join(parts)}{comma}{draw(BLANK)}).b  # end\n"


def is_sound(text: str, edit: Edit | None) -> bool:
    """Whether the edited text parses and keeps every comment in its order."""
    if edit is None:
        return True
    edited = apply_edits(text, [edit])
    kept = [c.text for c in comments(text)] == [c.text for c in comments(edited)]
    return kept and isinstance(read_source("x.py", edited), Source)


@settings(deadline=None)  # the machine may be busy
@given(calls())
def test_an_edit_of_a_call_parses_and_keeps_comments(text: str) -> None:
    source = read_source("x.py", text)
    if not isinstance(source, Source):
        return
    call = next(spans(source, ast.Call))
    for edit in (
        add_keyword(source, call, "new", "1"),
        set_keyword(source, call, "k", "g(2)"),
        remove_keyword(source, call, "k"),
        remove_keyword(source, call, "j"),
        rename_call(source, call, "m.n"),
        replace_expression(source, call, "p or q"),
    ):
        assert is_sound(text, edit)


@settings(deadline=None)  # the machine may be busy
@given(calls())
def test_an_added_keyword_changes_nothing_else(text: str) -> None:
    source = read_source("x.py", text)
    if not isinstance(source, Source):
        return
    edit = add_keyword(source, next(spans(source, ast.Call)), "new", "1")
    if edit is None:
        return
    edited = read(apply_edits(text, [edit]))
    (call,) = (n for n in ast.walk(edited.tree) if isinstance(n, ast.Call))
    assert call.keywords.pop().arg == "new"
    assert ast.dump(edited.tree) == ast.dump(source.tree)


def statement_edits(source: Source, at: Span) -> tuple[Edit | None, ...]:
    return (
        delete_statement(source, at),
        insert_before(source, at, "before()"),
        insert_after(source, at, "if after():\n    pass"),
        wrap_statements(source, at, at, "with inside():"),
    )


LIBRARY = Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize(
    "name",
    [
        "textwrap.py",
        "queue.py",
        "sched.py",
        pytest.param("test/test_grammar.py", marks=pytest.mark.slow),
    ],
)
def test_edits_of_every_statement_of_real_files_are_sound(name: str) -> None:
    """Every statement that can be deleted, preceded, followed or wrapped is, one at a time."""
    source = read((LIBRARY / name).read_text(encoding="utf-8"))
    everything = list(spans(source, ast.stmt))
    step = max(len(everything) // 15, 1)
    edits = [edit for at in everything[::step] for edit in statement_edits(source, at)]
    assert sum(edit is not None for edit in edits) > len(edits) / 2
    assert all(is_sound(source.text, edit) for edit in edits)


STATEMENTS = [
    "a()",
    "if x: b()",
    "c = 1;",
    "d(); e()",
    "x = (\n 1)",
    "# why",
    "",
    "f()  # why",
    "'''s\n'''",
]
STATEMENTS += [
    "if x:\n    g()\n    # end",
    "@d\ndef h(): pass",
    "for i in j:\n\tk()\nelse:\n\tl()",
    "m \\\n  ()",
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_edits_of_statements_parse_and_keep_comments(
    parts: list[str], line_end: str, ended: bool
) -> None:
    text = ("\n".join(parts) + "\n" * ended).replace("\n", line_end)
    source = read_source("x.py", text)
    if not isinstance(source, Source):
        return
    for at in spans(source, ast.stmt):
        for edit in statement_edits(source, at):
            assert is_sound(text, edit)
