"""The words of code and questions."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.retrieval.terms import document_vector, query_vector, terms


def test_an_identifier_is_its_words_and_itself() -> None:
    assert list(terms("getUserName")) == ["get", "user", "nam", "getusername"]
    assert list(terms("get_user_name")) == list(terms("getUserName"))
    assert list(terms("HTTPServer2")) == ["http", "serv", "httpserver2"]


def test_endings_and_fillers_do_not_matter() -> None:
    assert set(terms("how are redirects followed?")) == set(terms("follow redirect"))
    assert list(terms("the parser parsed it")) == ["pars", "pars"]


def test_other_scripts_are_words_too() -> None:
    assert list(terms("größe = 名前")) == ["größ", "名前"]


def test_a_rarer_use_of_a_word_weighs_less_in_a_longer_chunk() -> None:
    short = document_vector("a.py", None, "quota exceeded")
    long = document_vector("a.py", None, "quota exceeded " + "filler words galore " * 50)
    quota = query_vector("quota").indices[0]
    assert dict(zip(*short, strict=True))[quota] > dict(zip(*long, strict=True))[quota]


def test_the_symbol_weighs_more_than_a_word_of_the_text() -> None:
    by_name = document_vector("a.py", "retry", "pass the ball")
    by_text = document_vector("a.py", None, "pass the ball retry")
    retry = query_vector("retry").indices[0]
    assert dict(zip(*by_name, strict=True))[retry] > dict(zip(*by_text, strict=True))[retry]


@given(st.text())
def test_every_text_has_a_vector_with_unique_dimensions(text: str) -> None:
    vector = document_vector(text, text, text)
    assert len(set(vector.indices)) == len(vector.indices) == len(vector.values)
    assert all(0 <= dimension < 2**32 for dimension in vector.indices)
    assert set(query_vector(text).indices) <= set(vector.indices)
