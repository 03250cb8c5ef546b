"""What a reader meets: the page in a real browser."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

from feddag import load
from feddag.reports import write_report
from feddag.reports.web import live_server
from feddag.runs import Run
from feddag.runs.folder import write_record

pytest.importorskip("selenium", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

SIZES = (2, 11, 40, 100)


@pytest.fixture
def shown(browser):
    """Opens a run's report, in a window of some width, by day or by night; it must not complain."""

    def show(folder, *, width: int = 1280, dark: bool = False):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
        )
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        browser.get(write_report(folder).as_uri())
        return browser

    yield show
    assert browser.get_log("browser") == []


def count(browser, selector):
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)


def one(browser, selector):
    return browser.find_element("css selector", selector)


@pytest.mark.parametrize("nodes", SIZES)
def test_the_graph_is_seen_whole(shown, random_run, nodes):
    browser, graph = shown(random_run(nodes)), load(random_run(nodes)).graph_
    assert count(browser, "#drawing .node") == nodes
    assert count(browser, "#drawing .edge") == len(graph.edges)
    outside = browser.execute_script("""
        const stage = document.querySelector("#drawing").getBoundingClientRect();
        return [...document.querySelectorAll("#drawing .node, #drawing .stroke")].filter((each) => {
          const box = each.getBoundingClientRect();
          return box.left < stage.left - 1 || box.right > stage.right + 1
            || box.top < stage.top - 1 || box.bottom > stage.bottom + 1;
        }).length""")
    assert outside == 0
    clipped = browser.execute_script("""
        return [...document.querySelectorAll("#drawing .node")].filter((node) =>
          node.querySelector("text").getBBox().width > node.querySelector("rect").getBBox().width - 4).length""")
    assert clipped == 0


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", [2, 11, 100, "notears", "hostile"])
def test_nothing_is_wider_than_the_window(shown, random_run, notears_run, hostile_run, width, kind):
    folder = {"notears": notears_run, "hostile": hostile_run}.get(kind) or random_run(kind)
    browser = shown(folder, width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_names_do_no_harm(shown, hostile_run):
    browser = shown(hostile_run)
    assert "owned" not in browser.title
    names = load(hostile_run).graph_.names
    node = one(browser, '.node[data-node="0"]')
    assert node.get_attribute("aria-label").startswith(names[0])
    browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", node)
    assert one(browser, "#panel h3").text == names[0]
    assert "owned" not in browser.title


def test_an_edge_under_the_pointer_tells_its_numbers(shown, notears_run):
    browser, learner = shown(notears_run), load(notears_run)
    x, y = browser.execute_script("""
        const path = document.querySelector('#drawing .edge[data-edge="0"] .reach');
        path.scrollIntoView({block: "center"});
        const at = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
        return [Math.round(at.x), Math.round(at.y)]""")
    assert not one(browser, "#tip").is_displayed()
    time.sleep(0.2)  # the scrolling hides what is shown
    actions = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(x, y)
    actions.perform()
    told = one(browser, "#tip").text
    strongest = max(learner.graph_.edges, key=lambda edge: score(learner, edge))
    assert f"{strongest[0]} → {strongest[1]}" in told
    assert "edge score" in told
    assert f"{score(learner, strongest):.3g}" in told


def score(learner, edge):
    return learner.edge_scores_.at[edge]


def test_a_search_marks_what_it_finds_and_enter_chooses_it(shown, random_run):
    browser = shown(random_run(40))
    box = one(browser, "#search")
    box.send_keys("X3")
    found = {each.text for each in browser.find_elements("css selector", ".node.match")}
    assert found == {"x3", *(f"x{k}" for k in range(30, 40))}
    assert one(browser, "#count").text == "11 variables"
    box.send_keys("7", Keys.ENTER)
    assert one(browser, ".node.selected").text == "x37"
    box.send_keys(Keys.ESCAPE)
    assert count(browser, ".node.match, .node.selected") == 0


def test_the_keyboard_is_enough(shown, random_run):
    browser, graph = shown(random_run(11)), load(random_run(11)).graph_
    one(browser, "#fit").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element
    assert "node" in focused.get_attribute("class").split()
    focused.send_keys(Keys.ENTER)
    name = focused.text
    assert one(browser, ".node.selected").text == name
    assert focused.get_attribute("aria-pressed") == "true"
    causes = {source for source, target in graph.edges if target == name}
    effects = {target for source, target in graph.edges if source == name}
    assert {each.text for each in browser.find_elements("css selector", ".node.cause")} == causes
    assert {each.text for each in browser.find_elements("css selector", ".node.effect")} == effects
    assert effects  # the first from above is a cause
    assert set(one(browser, "#panel").text.splitlines()) >= effects
    focused.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text in effects
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert count(browser, ".node.selected, .lit") == 0


def test_zoom_brings_the_graph_closer_and_back(shown, random_run):
    browser = shown(random_run(40))
    width = "return document.querySelector('.node').getBoundingClientRect().width"
    before = browser.execute_script(width)
    one(browser, "#closer").click()
    assert browser.execute_script(width) == pytest.approx(1.4 * before, rel=0.01)
    one(browser, "#fit").click()
    assert browser.execute_script(width) == pytest.approx(before, rel=0.01)


def test_light_and_dark_follow_the_system_until_one_is_chosen(shown, random_run):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = shown(random_run(2)).execute_script(ground)
    browser = shown(random_run(2), dark=True)
    dark = browser.execute_script(ground)
    assert light != dark
    one(browser, "#theme").click()
    assert browser.execute_script(ground) == light
    one(browser, "#theme").click()
    assert browser.execute_script(ground) == dark
    browser.execute_script("localStorage.clear()")


def test_a_table_sorts_by_a_click_on_its_heading(shown, random_run):
    browser = shown(random_run(11))
    heading = one(browser, "#edges th button")
    browser.execute_script("arguments[0].click()", heading)
    cells = "return [...document.querySelectorAll('#edges tbody td:first-child')].map((cell) => cell.textContent)"
    falling = browser.execute_script(cells)
    browser.execute_script("arguments[0].click()", heading)
    assert browser.execute_script(cells) == falling[::-1]


def test_the_live_page_becomes_the_report(browser, notears_run, tmp_path):
    folder = shutil.copytree(notears_run, tmp_path / "run")
    run = Run.open(folder)
    run.record["status"] = "running"
    write_record(run.folder, run.record)
    line = '{"site": null, "figures": {"h": %s, "round": %d, "edges": NaN}, "seconds": %d, "seconds_left": 9}\n'
    (folder / "progress.jsonl").write_text("".join(line % (0.5 / k, k, k) for k in (1, 2, 3)))
    with live_server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
        wait(lambda: "0:03" in one(browser, "#figures").text)
        assert count(browser, "#curves figure") == 2
        wait(lambda: "Go on with: feddag learn --resume" in one(browser, "#state").text)
        run.record["status"] = "finished"
        write_record(run.folder, run.record)
        wait(lambda: count(browser, "#drawing .node") == 5)
        server.shutdown()
    assert browser.get_log("browser") == []


def wait(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)
