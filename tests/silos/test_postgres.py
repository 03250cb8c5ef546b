"""A site's table in a real PostgreSQL, which the test starts and stops."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.silos import Preparation, read_silos
from feddag.study import Study

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

import sqlalchemy

from postgres_process import IN_AN_ADDRESS, PASSWORD, postgres


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a database `clinic` of the user `reader`, without a password."""
    with postgres() as place:
        fill(f"postgresql+psycopg://reader:{IN_AN_ADDRESS}@{place}/clinic")
        yield f"postgresql://reader@{place}/clinic"


def fill(address: str) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {
            "id": k,
            "age": float(age),
            "dose": round(float(dose), 3),
            "smokes": bool(k % 2),
            "stage": ["I", "II", "III"][k % 3],
        }
        for k, (age, dose) in enumerate(rng.normal(50, 10, size=(30, 2)))
    ]
    engine = sqlalchemy.create_engine(address)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE SEQUENCE counter"))
        connection.execute(sqlalchemy.text("CREATE SCHEMA ward"))
        for table in ("visits", 'ward."Visits 2"'):
            connection.execute(
                sqlalchemy.text(
                    f'CREATE TABLE {table} (id int, "AGE" float8, dose numeric, smokes boolean, stage text, note json)'
                )
            )
            connection.execute(
                sqlalchemy.text(f"INSERT INTO {table} VALUES (:id, :age, :dose, :smokes, :stage, '{{}}')"), rows
            )
    engine.dispose()


STUDY = Study.parse(
    """
    name = "clinic"
    [variables]
    age = "continuous"
    dose = "continuous"
    smokes = "binary"
    stage = { type = "ordinal", levels = ["I", "II", "III"] }
    [method]
    name = "search"
    [sites.basel]
    columns = { age = "AGE" }
    """
)


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


@pytest.mark.usefixtures("password")
class TestReading:
    def test_a_table_keeps_to_the_study(self, address):
        silo = STUDY.silo("basel", f"{address}?table=visits")
        assert silo.columns == ("age", "dose", "smokes", "stage")
        assert silo.rows == 30
        assert set(silo.values[:, 2]) == {0.0, 1.0}
        assert np.bincount(silo.values[:, 3].astype(int)).tolist() == [10, 10, 10]
        expected = np.sort(np.random.default_rng(0).normal(50, 10, size=(30, 2))[:, 0])
        np.testing.assert_array_equal(np.sort(silo.values[:, 0]), expected)

    @pytest.mark.parametrize(
        "selection",
        [
            "table=ward.Visits 2",
            "query=SELECT * FROM visits WHERE stage LIKE 'I%' AND id::int >= 0 AND '10:30 :x' <> ':y';",
        ],
    )
    def test_a_query_and_a_table_of_a_schema_give_the_same(self, address, selection):
        plain, other = (STUDY.silo("basel", f"{address}?{each}") for each in ("table=visits", selection))
        assert plain.digest() == other.digest()

    def test_nothing_but_the_columns_of_the_study_is_asked_for(self, address, monkeypatch):
        statements = []
        listen = sqlalchemy.event.listen
        create = sqlalchemy.create_engine

        def watched(*arguments, **options):
            engine = create(*arguments, **options)
            listen(engine, "before_cursor_execute", lambda *details: statements.append(details[2]))
            return engine

        monkeypatch.setattr(sqlalchemy, "create_engine", watched)
        STUDY.silo("basel", f"{address}?table=visits")
        fetching = [text for text in statements if "1 = 0" not in text]
        assert fetching == ['SELECT "AGE", "dose", "smokes", "stage" FROM "visits" ORDER BY 1, 2, 3, 4']

    def test_nothing_can_be_written(self, address):
        with pytest.raises(FeddagError, match=r"cannot execute nextval\(\) in a read-only transaction"):
            read_silos({"basel": f"{address}?query=SELECT nextval('counter') AS a, 1 AS b"})

    def test_what_is_not_there_is_told(self, address):
        with pytest.raises(FeddagError, match=r'could not be read \(relation "none" does not exist'):
            STUDY.silo("basel", f"{address}?table=none")
        with pytest.raises(FeddagError, match=r"lacks 'AGE', 'smokes', 'stage'\. It has 'id', 'dose'"):
            STUDY.silo("basel", f"{address}?query=SELECT id, dose FROM visits")
        with pytest.raises(FeddagError, match=r"Site 'basel': .* needs \?table=NAME or \?query="):
            STUDY.silo("basel", address)

    def test_other_parameters_reach_the_driver(self, address):
        assert STUDY.silo("basel", f"{address}?application_name=feddag&table=visits").rows == 30
        with pytest.raises(FeddagError, match="nonsense"):
            STUDY.silo("basel", f"{address}?nonsense=1&table=visits")


class TestPasswords:
    def test_one_in_the_address_opens_the_database(self, address):
        with_password = address.replace("reader@", f"reader:{IN_AN_ADDRESS}@")
        assert STUDY.silo("basel", f"{with_password}?table=visits").rows == 30

    def test_a_wrong_one_is_refused_and_not_shown(self, address, monkeypatch):
        monkeypatch.delenv("PGPASSWORD", raising=False)
        wrong = address.replace("reader@", "reader:hush-hush@")
        with pytest.raises(FeddagError, match="password authentication failed") as caught:
            STUDY.silo("basel", f"{wrong}?table=visits")
        assert "hush-hush" not in str(caught.value)
        assert "reader:***@127.0.0.1" in str(caught.value)

    def test_a_run_holds_none_and_is_resumed_with_that_of_the_environment(self, address, tmp_path, monkeypatch):
        from feddag.learners.factory import make_learner  # noqa: PLC0415
        from feddag.runs import Run, load  # noqa: PLC0415

        source = address.replace("reader@", f"reader:{IN_AN_ADDRESS}@") + '?query=SELECT "AGE", dose FROM visits'
        silos = read_silos({"basel": source}, scale="site")
        learner = make_learner("var-sortnregress")
        Run.start(tmp_path / "run", learner, silos, [source])
        text = (tmp_path / "run" / "run.json").read_text()
        assert PASSWORD not in text
        assert IN_AN_ADDRESS not in text
        assert json.loads(text)["sites"][0]["source"].startswith("postgresql://reader@127.0.0.1")

        run = Run.start(tmp_path / "scaled", learner, silos, [source], preparation=Preparation(scale="site"))
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        again = Run.open(run.folder).silos()
        assert again[0].digest() == silos[0].digest()
        run.learn()
        assert load(run.folder).sites_ == ("basel",)
