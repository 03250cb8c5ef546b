"""A kit tells in time that its certificates end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert

from feddag import FeddagError
from feddag.deployment.flare.certificates import check_certificates

BEGINS, ENDS = datetime(2026, 3, 1, tzinfo=UTC), datetime(2027, 2, 24, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def startup(tmp_path_factory):
    folder = tmp_path_factory.mktemp("startup")
    key, public = generate_keys()
    certificate = generate_cert(
        Identity("basel"), Identity("root"), key, public, not_valid_before=BEGINS, not_valid_after=ENDS
    )
    (folder / "client.crt").write_bytes(serialize_cert(certificate))
    (folder / "damaged.crt").write_text("nonsense")
    return folder


def checked(startup, now, name="client.crt"):
    return check_certificates(startup, (name,), now)


def test_a_certificate_that_holds_for_long_is_no_news(startup):
    assert checked(startup, ENDS - timedelta(days=15)) is None


def test_one_that_soon_ends_is_warned_of(startup):
    warning = checked(startup, ENDS - timedelta(days=13, hours=1))
    assert warning is not None
    assert f"{startup / 'client.crt'}: this certificate expires on 2027-02-24, in 13 days" in warning
    assert "feddag federation renew" in warning


def test_one_that_has_ended_is_refused_with_file_date_and_remedy(startup):
    with pytest.raises(FeddagError, match=r"client.crt: this certificate expired on 2027-02-24 12:00 UTC.*renew"):
        checked(startup, ENDS + timedelta(minutes=1))


def test_a_clock_that_goes_wrong_is_named(startup):
    with pytest.raises(FeddagError, match=r"holds from 2026-03-01 .*clock says 2025-01-01 00:00\. Set the clock"):
        checked(startup, datetime(2025, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("name", "told"), [("damaged.crt", "is damaged"), ("lost.crt", "is not there")])
def test_a_kit_that_lacks_its_certificate_says_so(startup, name, told):
    with pytest.raises(FeddagError, match=rf"{name} {told}.*Install the kit again"):
        checked(startup, BEGINS + timedelta(days=1), name)
