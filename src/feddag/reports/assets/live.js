"use strict";
(() => {
  const space = "http://www.w3.org/2000/svg";
  const find = (selector) => document.querySelector(selector);
  const make = (name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const draw = (name, attributes) => {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const clock = (seconds) => {
    const whole = Math.round(seconds);
    const two = (number) => String(number).padStart(2, "0");
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor(whole / 60) % 60;
    return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
  };

  const fact = (name, value) => {
    const box = make("div");
    box.append(make("dt", name), make("dd", value));
    return box;
  };
  const showFigures = (now) => {
    const facts = [];
    for (const { site, figures, seconds, seconds_left: left } of now) {
      const prefix = site === null ? "" : `${site}: `;
      for (const [name, text] of figures) facts.push(fact(prefix + name, text));
      facts.push(fact(`${prefix}time`, clock(seconds)));
      if (left !== null) facts.push(fact(`${prefix}left, about`, clock(left)));
    }
    find("#figures").replaceChildren(...facts);
  };

  const curve = ({ title, lines }) => {
    const values = lines.flat().map(([, y]) => y);
    const logarithmic = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 300;
    const up = (value) => (logarithmic ? Math.log10(value) : value);
    const low = up(Math.min(...values));
    const span = up(Math.max(...values)) - low || 1;
    const last = Math.max(...lines.flat().map(([x]) => x)) || 1;
    const svg = draw("svg", { viewBox: "0 0 380 150", class: "chart", role: "img" });
    svg.setAttribute("aria-label", `${title} over time`);
    svg.append(draw("line", { x1: 8, x2: 372, y1: 138, y2: 138, class: "grid" }));
    for (const line of lines) {
      const path = line.map(([x, y]) => `${(8 + (364 * x) / last).toFixed(1)} ${(134 - (124 * (up(y) - low)) / span).toFixed(1)}`);
      svg.append(draw("path", { d: `M${path.join("L")}`, class: lines.length > 1 ? "line of-site" : "line" }));
    }
    const figure = make("figure");
    figure.append(make("figcaption", logarithmic ? `${title} (logarithmic)` : title), svg);
    return figure;
  };
  const look = async () => {
    let status;
    try {
      const answer = await fetch("state.json", { cache: "no-store" });
      status = await answer.json();
    } catch {
      find("#state").textContent = "feddag watch has ended. This is the last state it showed.";
      return;
    }
    if (status.state === "finished") { location.reload(); return; }
    showFigures(status.now);
    find("#curves").replaceChildren(...status.curves.map(curve));
    find("#state").textContent = status.state === "stopped"
      ? `The run has stopped before its end. Go on with: ${status.resume}`
      : status.now.length ? "The run is under way." : "Waiting for the first round.";
    setTimeout(look, 1000);
  };
  look();
})();
