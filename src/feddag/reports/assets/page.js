"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };

  // light and dark
  const remembered = () => { try { return localStorage.getItem("feddag-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("feddag-theme", theme); } catch { /* not from a file */ } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const theme = find("#theme");
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // the tooltip of the thing under the pointer
  const tip = find("#tip");
  const showTip = (event, title, rows) => {
    tip.replaceChildren(make("b", title), ...rows.map(([words, value]) => {
      const row = make("div");
      row.append(make("span", words), make("span", value));
      return row;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
    const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.left = `${Math.max(8, Math.min(x, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, y)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });
  const title = (edge) => `${data.names[edge.source]} ${edge.symbol} ${data.names[edge.target]}`;
  for (const element of all("[data-edge]")) {
    const edge = data.edges[element.dataset.edge];
    element.addEventListener("pointermove", (event) => showTip(event, title(edge), edge.numbers));
    element.addEventListener("pointerleave", hideTip);
  }

  // the graph: choosing a variable
  const graph = find("#drawing");
  const panel = find("#panel");
  const nodes = new Map(all(".node", graph).map((node) => [Number(node.dataset.node), node]));
  const lines = new Map(all(".edge", graph).map((edge) => [Number(edge.dataset.edge), edge]));
  const hint = [...panel.childNodes];
  let selected = null;

  const relations = (number) => {
    const found = { cause: [], effect: [], hidden: [], joined: [] };
    data.edges.forEach((edge, k) => {
      if (edge.source !== number && edge.target !== number) return;
      const other = edge.source === number ? edge.target : edge.source;
      const open = edge.kind === "<->" ? "hidden" : "joined";
      const kind = edge.kind !== "->" ? open : edge.target === number ? "cause" : "effect";
      found[kind].push({ other, k });
    });
    return found;
  };
  const clear = () => {
    graph.classList.remove("chosen");
    for (const node of nodes.values()) {
      node.classList.remove("selected", "lit", "cause", "effect", "hidden", "joined");
      node.setAttribute("aria-pressed", "false");
    }
    for (const line of lines.values()) line.classList.remove("lit", "to-cause", "to-effect", "to-hidden", "to-joined");
    panel.replaceChildren(...hint);
    selected = null;
  };
  const headings = { cause: "Causes", effect: "Effects", hidden: "Joined by a hidden cause", joined: "Joined, direction open" };
  const select = (number) => {
    clear();
    selected = number;
    graph.classList.add("chosen");
    nodes.get(number).classList.add("selected", "lit");
    nodes.get(number).setAttribute("aria-pressed", "true");
    const parts = [make("h3", data.names[number])];
    for (const [kind, found] of Object.entries(relations(number))) {
      if (!found.length) continue;
      parts.push(make("h4", `${headings[kind]} (${found.length})`, kind));
      const list = make("ul");
      for (const { other, k } of found) {
        nodes.get(other).classList.add("lit", kind);
        lines.get(k).classList.add("lit", `to-${kind}`);
        const row = make("li");
        const button = make("button", data.names[other]);
        button.type = "button";
        button.addEventListener("click", () => { select(other); nodes.get(other).focus(); });
        row.append(button, make("span", data.edges[k].numbers[0][1]));
        list.append(row);
      }
      parts.push(list);
    }
    if (parts.length === 1) parts.push(make("p", "No edges.", "note"));
    else parts.push(make("p", `Numbers: ${data.meaning}.`, "note"));
    panel.replaceChildren(...parts);
  };
  const toggle = (number) => { if (selected === number) clear(); else select(number); };
  const bring = (number) => {
    const { x, y, width, height } = nodes.get(number).getBBox();
    look.x = x + width / 2 - look.width / 2;
    look.y = y + height / 2 - look.height / 2;
    apply();
  };
  const centre = (number) => {
    const box = nodes.get(number).getBBox();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  };
  const nearest = (number, key) => {
    const from = centre(number);
    const found = relations(number);
    const joined = [...found.joined, ...found.hidden];
    const kin = { ArrowUp: [...found.cause, ...joined], ArrowDown: [...found.effect, ...joined] }[key];
    if (kin) {
      const down = key === "ArrowDown" ? 1 : -1;
      return kin.map(({ other }) => other).filter((other) => (centre(other).y - from.y) * down > 0)[0];
    }
    const right = key === "ArrowRight" ? 1 : -1;
    return [...nodes.keys()]
      .filter((other) => Math.abs(centre(other).y - from.y) < 2 && (centre(other).x - from.x) * right > 0)
      .sort((one, other) => (centre(one).x - centre(other).x) * right)[0];
  };
  for (const [number, node] of nodes) {
    node.addEventListener("click", () => { if (!moved) toggle(number); });
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle(number);
      } else if (event.key === "Escape") {
        clear();
      } else if (event.key.startsWith("Arrow")) {
        const next = nearest(number, event.key);
        event.preventDefault();
        if (next === undefined) return;
        nodes.get(next).focus();
        if (selected !== null) select(next);
      }
    });
    node.addEventListener("pointermove", (event) => {
      if (event.buttons) return;
      const found = relations(number);
      const counts = Object.entries(found).filter(([, each]) => each.length);
      showTip(event, data.names[number], counts.map(([kind, each]) => [headings[kind], String(each.length)]));
    });
    node.addEventListener("pointerleave", hideTip);
    node.addEventListener("focus", () => {
      const box = node.getBBox();
      const seen = box.x >= look.x && box.x + box.width <= look.x + look.width
        && box.y >= look.y && box.y + box.height <= look.y + look.height;
      if (!seen) bring(number);
    });
  }

  // the graph: searching
  const search = find("#search");
  const count = find("#count");
  const matches = () => {
    const words = search.value.trim().toLowerCase();
    return words ? [...nodes.keys()].filter((k) => data.names[k].toLowerCase().includes(words)) : [];
  };
  search.addEventListener("input", () => {
    const found = new Set(matches());
    const searching = search.value.trim() !== "";
    graph.classList.toggle("searching", searching);
    for (const [k, node] of nodes) node.classList.toggle("match", found.has(k));
    count.textContent = searching ? (found.size === 1 ? "1 variable" : `${found.size} variables`) : "";
  });
  search.addEventListener("keydown", (event) => {
    const [first] = matches();
    if (event.key === "Enter" && first !== undefined) { select(first); bring(first); }
    if (event.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); clear(); }
  });

  // the graph: zoom and pan
  const [x, y, width, height] = graph.getAttribute("viewBox").split(" ").map(Number);
  const whole = { x, y, width, height };
  const look = { ...whole };
  let moved = false;
  const apply = () => {
    graph.setAttribute("viewBox", `${look.x} ${look.y} ${look.width} ${look.height}`);
    graph.style.touchAction = look.width < whole.width ? "none" : "pan-y";
  };
  const point = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(graph.getScreenCTM().inverse());
    return { x: at.x, y: at.y };
  };
  const zoom = (factor, at = { x: look.x + look.width / 2, y: look.y + look.height / 2 }) => {
    const next = Math.min(Math.max(look.width * factor, whole.width / 12), whole.width * 1.5);
    const share = next / look.width;
    look.x = at.x - (at.x - look.x) * share;
    look.y = at.y - (at.y - look.y) * share;
    look.width = next;
    look.height *= share;
    apply();
  };
  apply();
  find("#closer").addEventListener("click", () => zoom(1 / 1.4));
  find("#further").addEventListener("click", () => zoom(1.4));
  find("#fit").addEventListener("click", () => { Object.assign(look, whole); apply(); });
  graph.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.0022), point(event));
  }, { passive: false });
  let held = null;
  graph.addEventListener("pointerdown", (event) => {
    moved = false;
    if (event.button !== 0 || (event.pointerType === "touch" && look.width >= whole.width)) return;
    held = { at: point(event), x: event.clientX, y: event.clientY, id: event.pointerId };
  });
  graph.addEventListener("pointermove", (event) => {
    if (!held || event.pointerId !== held.id) return;
    if (!moved && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 5) return;
    if (!moved) graph.setPointerCapture(held.id);
    moved = true;
    graph.classList.add("dragged");
    hideTip();
    const now = point(event);
    look.x -= now.x - held.at.x;
    look.y -= now.y - held.at.y;
    apply();
  });
  const release = () => { held = null; graph.classList.remove("dragged"); };
  graph.addEventListener("pointerup", release);
  graph.addEventListener("pointercancel", release);
  graph.addEventListener("click", (event) => { if (!moved && event.target === graph) clear(); });
  addEventListener("beforeprint", () => { Object.assign(look, whole); apply(); });

  // curves
  for (const chart of all("svg.chart")) {
    const { title: name, axis, rounds, figures } = data.charts[chart.dataset.chart];
    const cursor = find(".cursor", chart);
    const left = Number(chart.dataset.left);
    const right = Number(chart.dataset.right);
    const first = rounds[0];
    const span = rounds[rounds.length - 1] - first || 1;
    chart.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      const wanted = first + ((at.x - left) / (right - left)) * span;
      let k = 0;
      rounds.forEach((each, i) => { if (Math.abs(each - wanted) < Math.abs(rounds[k] - wanted)) k = i; });
      const place = left + ((rounds[k] - first) / span) * (right - left);
      cursor.setAttribute("x1", place);
      cursor.setAttribute("x2", place);
      showTip(event, `${name}, ${axis} ${rounds[k]}`, figures.map(([words, values]) => [words, values[k]]));
    });
    chart.addEventListener("pointerleave", () => {
      cursor.setAttribute("x1", -9);
      cursor.setAttribute("x2", -9);
      hideTip();
    });
  }

  // tables sort by a click on a heading
  for (const table of all("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending";
        for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => {
          const cell = row.cells[column];
          return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
        };
        const order = (one, other) => (typeof one === "number" && typeof other === "number"
          ? one - other : String(one).localeCompare(String(other)));
        body.append(...[...body.rows].sort((one, other) => order(value(one), value(other)) * (up ? 1 : -1)));
      });
    });
  }
})();
