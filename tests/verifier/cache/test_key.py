"""A key stands for everything that was sent, and for nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from verifier.cache.key import KEY_BYTES, RequestKeys

URL = "https://api.example/v1/chat/completions"
URLS = st.sampled_from([URL, f"{URL}?version=2", "http://h.example/v1"])


@given(URLS, st.binary(), URLS, st.binary())
def test_keys_are_equal_just_when_url_and_body_are(
    url: str, body: bytes, other_url: str, other_body: bytes
) -> None:
    """The order in which keys are made does not count either."""
    one, other = RequestKeys(url), RequestKeys(other_url)
    one.key(b"something before")
    same = (url, body) == (other_url, other_body)
    assert (one.key(body) == other.key(other_body)) is same
    assert len(one.key(body)) == KEY_BYTES


def test_no_byte_moves_between_url_and_body() -> None:
    assert RequestKeys("http://h/a").key(b"b") != RequestKeys("http://h/").key(b"ab")


def test_keys_stay_the_same_from_version_to_version() -> None:
    """Otherwise every cache that people have would be lost."""
    # printf 'URL\0BODY' | b2sum -l 160
    known = "7ca546bfff9f3efc1a33f6fa75db57b9ffc1feb2"
    assert RequestKeys(URL).key(b'{"model":"m"}').hex() == known
