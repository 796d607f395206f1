"""Files in pieces: by symbol where the language is understood, by lines where not, and never a line twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.retrieval.chunking import LINES, LONGEST_LINE, Piece, pieces
from holdfast.retrieval.languages import language_of
from tests.retrieval.trees import GREETING

SOURCES = {
    "python": (
        "import os\n\n# about f\n@wrapped\ndef f(x):\n    return 1\n\n\nclass A(B):\n    x = 1\n\n"
        "    def m(self):\n        pass\n\n\nif os:\n    def g():\n        pass\n",
        {"f": (3, 6), "A": (9, 10), "A.m": (12, 13), "g": (17, 18)},
    ),
    "javascript": (
        "export class A extends B {\n  x = 1\n  m() {\n  }\n}\n\n// doubles\n"
        "export const f = (x) => {\n  return 2 * x\n}\nfunction g() {}\nconst y = 2\n",
        {"A": (1, 2), "A.m": (3, 4), "f": (7, 10), "g": (11, 11)},
    ),
    "typescript": (
        "export interface I { a: string }\nexport abstract class A {\n  private m(): void {\n  }\n}\n"
        "export type T = string;\nenum E { A }\n",
        {"I": (1, 1), "A": (2, 2), "A.m": (3, 4), "T": (6, 6), "E": (7, 7)},
    ),
    "tsx": ("export const Button = () => <b/>;\n", {"Button": (1, 1)}),
    "go": (
        "package p\n\n// Run runs.\nfunc (s *Server) Run(a int) error {\n\treturn nil\n}\n\n"
        "type T struct {\n\ta int\n}\n\nfunc free() {}\n",
        {"Server.Run": (3, 6), "T": (8, 10), "free": (12, 12)},
    ),
    "rust": (
        "/// A thing.\n#[derive(Debug)]\npub struct S { a: i32 }\n\nimpl S {\n    /// Does it.\n"
        "    pub fn m(&self) -> i32 {\n        1\n    }\n}\n\nmod inner {\n    fn z() {}\n}\n",
        {"S": (1, 3), "S.m": (6, 9), "inner.z": (13, 13)},
    ),
    "java": (
        "package a;\n\n/** Doc. */\npublic class A {\n  int x;\n\n  A() {}\n\n"
        "  @Override\n  public void m() {\n  }\n}\n",
        {"A": (3, 5), "A.A": (7, 7), "A.m": (9, 11)},
    ),
    "c": (
        "#include <a.h>\n#ifdef X\n"
        "int *f(int a) {\n  return 0;\n}\n#endif\nstruct s { int a; };\nstruct s v;\n",
        {"f": (3, 5), "s": (7, 7)},
    ),
    "cpp": (
        "namespace n {\ntemplate <class T>\n"
        "class A {\n public:\n  void m() {\n  }\n};\n}\nvoid n::A::q() {\n}\n",
        {"n.A": (2, 4), "n.A.m": (5, 6), "n::A::q": (9, 10)},
    ),
    "csharp": (
        "namespace N {\n  public class A {\n"
        "    public int P { get; set; }\n    public void M() {\n    }\n  }\n}\n",
        {"N.A": (2, 2), "N.A.P": (3, 3), "N.A.M": (4, 5)},
    ),
    "ruby": (
        "module M\n  class A\n    def m\n    end\n\n    # doc\n    def self.q\n    end\n  end\nend\n",
        {"M": (1, 1), "M.A": (2, 2), "M.A.m": (3, 4), "M.A.q": (6, 8)},
    ),
    "php": (
        "<?php\nclass B {\n  private $x = 1;\n\n  function m() {\n  }\n}\nfunction f() {}\n",
        {"B": (2, 3), "B.m": (5, 6), "f": (8, 8)},
    ),
}


def lines_of(text: str, language: str) -> dict[str, tuple[int, int]]:
    """Where each symbol is; of one in several pieces, the first."""
    places: dict[str, tuple[int, int]] = {}
    for piece in pieces(text, language):
        if piece.symbol is not None:
            places.setdefault(piece.symbol, (piece.start_line, piece.end_line))
    return places


@pytest.mark.parametrize("language", SOURCES)
def test_symbols_have_their_lines(language: str) -> None:
    source, expected = SOURCES[language]
    assert lines_of(source, language).items() >= expected.items()


def test_functions_of_a_class_are_methods_and_the_rest_of_a_file_is_nobodys() -> None:
    found = [(piece.symbol, piece.symbol_type) for piece in pieces(GREETING, "python")]
    assert found == [
        (None, None),
        ("Greeter", "class"),
        ("Greeter.greet", "method"),
        ("farewell", "function"),
    ]


def test_a_long_function_is_cut_into_even_windows() -> None:
    source = "def long():\n" + "    x = 1\n" * LINES
    first, second = pieces(source, "python")
    assert (first.start_line, first.end_line) == (1, 31)
    assert (second.start_line, second.end_line) == (32, 61)
    assert first.symbol == second.symbol == "long"


def test_an_unknown_language_is_windows_of_lines() -> None:
    found = pieces("word\n" * 150, "text")
    assert [(piece.start_line, piece.end_line) for piece in found] == [(1, 50), (51, 100), (101, 150)]


def test_a_line_that_nobody_reads_is_in_no_piece() -> None:
    found = pieces(f"first\n{'x' * (LONGEST_LINE + 1)}\nlast\n", "text")
    assert [piece.text for piece in found] == ["first", "last"]


def test_classes_inside_of_classes_end_somewhere() -> None:
    deep = "".join(f"{' ' * level}class C{level}:\n" for level in range(90)) + " " * 90 + "pass\n"
    assert pieces(deep, "python")[-1].end_line == 91


@given(st.sampled_from(sorted(SOURCES)), st.text(max_size=300), st.integers(0, 300))
def test_pieces_are_exact_lines_in_order_whatever_the_file_holds(language: str, junk: str, at: int) -> None:
    source = SOURCES[language][0]
    text = source[:at] + junk + source[at:]
    lines = text.split("\n")
    after = 0
    for piece in pieces(text, language):
        assert after < piece.start_line <= piece.end_line <= len(lines)
        assert piece.text == "\n".join(lines[piece.start_line - 1 : piece.end_line])
        assert piece.end_line - piece.start_line < LINES
        after = piece.end_line


def test_languages_go_by_the_name_of_the_file() -> None:
    names = ["a/b.py", "X.TSX", "x.h", "Makefile", "README.md", "noending", ".gitignore"]
    assert [language_of(name) for name in names] == [
        *("python", "tsx", "c", "make", "markdown", "text", "text")
    ]


def test_nothing_comes_of_nothing() -> None:
    assert pieces("", "python") == []
    assert pieces("\n\n", "text") == []
    assert pieces("x", "text") == [Piece(1, 1, "x")]
