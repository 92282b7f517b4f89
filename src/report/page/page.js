// SPDX-License-Identifier: Apache-2.0
// Draws the page from the JSON of #data: a title and sections, each of a kind (docs/report.md).
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** `code` between backquotes. */
  function prose(text) {
    return String(text).split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));
  }

  function facts(section) {
    return make("dl", {class: "facts"}, ...section.rows.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, ...prose(value)))));
  }

  function advice(section) {
    return make("ol", {class: "advice"}, ...section.items.map((item) => make("li", {}, ...prose(item))));
  }

  function shown(value) {
    if (typeof value !== "number" || Number.isInteger(value)) return String(value ?? "");
    return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
  }

  /** A table that sorts by a click on a head and shows the rows that hold the text of its search field. */
  function table(section) {
    const body = make("tbody");
    const rows = section.rows.map((cells) => ({
      cells,
      element: make("tr", {}, ...cells.map((cell) =>
        make("td", typeof cell === "number" ? {class: "number"} : {}, shown(cell)))),
    }));
    body.append(...rows.map((row) => row.element));
    let sorted = -1;
    const sort = (column) => {
      const sign = sorted === column ? -1 : 1;
      sorted = sign === 1 ? column : -1;
      const number = rows.some((row) => typeof row.cells[column] === "number");
      rows.sort((a, b) => {
        const [x, y] = [a.cells[column], b.cells[column]];
        return sign * (number ? (Number(y) || 0) - (Number(x) || 0) : String(x).localeCompare(String(y)));
      });
      body.append(...rows.map((row) => row.element));
      heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : sign === 1 === number ? "descending" : "ascending"));
    };
    const heads = section.columns.map((name, i) =>
      make("th", {scope: "col", "aria-sort": "none"}, make("button", {type: "button", onclick: () => sort(i)}, name)));
    const filter = make("input", {type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => {
      const wanted = filter.value.toLowerCase();
      for (const row of rows) row.element.hidden = !row.cells.some((cell) => String(cell).toLowerCase().includes(wanted));
    }});
    return make("div", {}, section.rows.length > 12 ? make("div", {class: "bar"}, filter) : null,
      make("div", {class: "scroll", tabindex: "0"}, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)));
  }

  function chart(section) {
    const place = make("div", {class: "chart", role: "figure", "aria-label": section.title});
    const spec = {width: "container", autosize: {type: "fit", contains: "padding"}, background: "transparent", ...section.spec};
    const kWide = 600;  // where names beside points have room
    if (spec.layer && innerWidth < kWide) spec.layer = spec.layer.filter((part) => (part.mark.type || part.mark) !== "text");
    vegaEmbed(place, spec, {actions: {export: true, source: false, compiled: false, editor: false}, renderer: "svg",
      theme: dark ? "dark" : undefined, config: chartColors()})
      .catch((error) => place.append(make("p", {class: "note"}, `This chart can't be drawn: ${error.message}`)));
    return place;
  }

  /** Vega's dark theme leaves the colours of names, lines of boxes and grids as they are on white. */
  function chartColors() {
    const ink = dark ? "#d5d9e0" : "#3a4250", grid = dark ? "#353c48" : "#dddddd";
    return {background: "transparent", text: {color: ink}, rule: {color: ink}, boxplot: {rule: {color: ink}},
      axis: {gridColor: grid}, view: {stroke: grid}};
  }

  // ---- Graphs ----

  const kLine = 16;

  /** How wide text is, about. */
  function textWidth(text) { return 7 * text.length; }

  function heat(weight) {
    return `hsl(${48 - 36 * weight} ${35 + 60 * weight}% ${93 - 28 * weight}%)`;
  }

  /** A layered drawing of nodes and edges: zoom, pan, search; nodes with members open. */
  function graph(section) {
    const nodes = new Map(section.nodes.map((node) => [node.id, node]));
    const open = new Set();
    const view = {x: 0, y: 0, scale: 1};
    const scene = svg("g");
    const canvas = svg("svg", {role: "group", tabindex: "0", "aria-label": `${section.title}: arrow keys move, + and - zoom, 0 shows all, Tab goes from node to node`},
      svg("defs", {}, svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: "8", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto"},
        svg("path", {d: "M0 0L8 4L0 8z", style: "fill:#7a8494;stroke:none"}))), scene);
    const aside = make("aside", {"aria-live": "polite"}, make("p", {class: "note"}, "Click a node to see its details; click again to expand it."));
    const elements = new Map();
    let size = {width: 1, height: 1}, chosen = null, found = [], next = 0;

    const place = () => scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    const box = () => canvas.getBoundingClientRect();
    const zoom = (factor, x = box().width / 2, y = box().height / 2) => {
      const scale = Math.min(4, Math.max(0.02, view.scale * factor));
      view.x = x - (x - view.x) * scale / view.scale;
      view.y = y - (y - view.y) * scale / view.scale;
      view.scale = scale;
      place();
    };
    const fit = () => {
      const {width, height} = box();
      view.scale = Math.min(1.2, width / (size.width + 40), height / (size.height + 40)) || 1;
      view.x = (width - size.width * view.scale) / 2;
      view.y = (height - size.height * view.scale) / 2;
      place();
    };
    /** The top of the graph, as large as can be read; on phones its whole width, which fingers enlarge. */
    const top = () => {
      const {width} = box();
      const least = width < 700 ? 0.25 : 0.7;
      view.scale = Math.max(least, Math.min(1, width / (size.width + 40)));
      const first = section.nodes.length > 0 ? section.nodes[0].at.x : size.width / 2;
      view.x = size.width * view.scale <= width ? (width - size.width * view.scale) / 2 : width / 2 - first * view.scale;
      view.y = 16;
      place();
    };
    const centre = (node) => {
      const {width, height} = box();
      if (view.scale < 0.6) view.scale = 1;
      view.x = width / 2 - node.at.x * view.scale;
      view.y = height / 2 - node.at.y * view.scale;
      place();
    };
    const choose = (node) => {
      if (chosen) elements.get(chosen.id).classList.remove("chosen");
      chosen = node;
      elements.get(node.id).classList.add("chosen");
      aside.replaceChildren(make("h3", {}, node.title), make("dl", {}, ...(node.details || []).flatMap(([name, value]) =>
        [make("dt", {}, make("strong", {}, name)), make("dd", {}, String(value).includes("\n") ? make("pre", {}, value) : value)])));
    };
    const toggle = (node) => {
      if (!(node.members || []).length) return;
      if (!open.delete(node.id)) open.add(node.id);
      draw();
      centre(node);
      elements.get(node.id).focus({preventScroll: true});
    };

    function lines(node) {
      const result = [node.title, node.subtitle || ""];
      return open.has(node.id) ? [...result, ...node.members] : result;
    }

    function draw() {
      const drawn = section.nodes.map((node) => {
        const text = lines(node);
        return {v: node.id, width: Math.max(80, ...text.map(textWidth)) + 24, height: kLine * text.length + 12};
      });
      const edges = section.edges.map(([v, w]) => ({v, w, minlen: 1, weight: 1, width: 0, height: 0, labeloffset: 10, labelpos: "r"}));
      const options = {nodesep: 24, ranksep: 28};
      if (drawn.length > 800) options.ranker = "longest-path";
      dagre.layout(drawn, edges, options, {});
      size = {width: 0, height: 0};
      scene.replaceChildren();
      elements.clear();
      for (const edge of edges) {
        const points = edge.points || [];
        scene.append(svg("path", {d: points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join(""), "marker-end": "url(#arrow)"}));
      }
      for (const spot of drawn) {
        const node = nodes.get(spot.v);
        node.at = {x: spot.x, y: spot.y};
        const text = lines(node);
        const [left, up] = [spot.x - spot.width / 2, spot.y - spot.height / 2];
        const element = svg("g", {class: "node", tabindex: "0", role: "button", "aria-label": `${node.title}, ${node.subtitle || ""}`,
          "aria-expanded": open.has(node.id)},
          svg("rect", {x: left, y: up, width: spot.width, height: spot.height, rx: 6, fill: heat(node.weight || 0)}),
          ...text.map((line, i) => {
            const label = svg("text", {x: left + 12, y: up + kLine * (i + 1), class: i === 0 ? "" : "small"});
            label.textContent = line;
            return label;
          }));
        element.addEventListener("click", () => { if (!dragged) { if (chosen === node) toggle(node); choose(nodes.get(node.id)); } });
        element.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { choose(node); toggle(node); choose(node); event.preventDefault(); event.stopPropagation(); }
        });
        element.addEventListener("focus", () => { if (element.matches(":focus-visible")) { choose(node); centre(node); } });
        elements.set(node.id, element);
        scene.append(element);
        size.width = Math.max(size.width, spot.x + spot.width / 2);
        size.height = Math.max(size.height, spot.y + spot.height / 2);
      }
      if (chosen) elements.get(chosen.id).classList.add("chosen");
      mark();
    }

    // Search.
    const count = make("span", {class: "note", "aria-live": "polite"});
    const search = make("input", {type: "search", placeholder: "Search nodes (Enter: next)", "aria-label": "Search nodes"});
    function mark() {
      const wanted = search.value.trim().toLowerCase();
      found = wanted ? section.nodes.filter((node) => JSON.stringify([node.title, node.subtitle, node.members, node.details]).toLowerCase().includes(wanted)) : [];
      for (const [id, element] of elements) element.classList.toggle("found", found.includes(nodes.get(id)));
      count.textContent = wanted ? `${found.length} found` : "";
    }
    search.addEventListener("input", () => { mark(); next = 0; if (found.length) centre(found[0]); });
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !found.length) return;
      const node = found[next++ % found.length];
      choose(node);
      centre(node);
    });

    // Pointers: one drags, two pinch.
    const pointers = new Map();
    let dragged = false;
    canvas.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, event); if (pointers.size === 1) dragged = false; });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const others = [...pointers.values()].filter((pointer) => pointer.pointerId !== event.pointerId);
      if (others.length) {
        const far = (a, b) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) || 1;
        const area = box();
        zoom(far(event, others[0]) / far(before, others[0]), (event.clientX + others[0].clientX) / 2 - area.x, (event.clientY + others[0].clientY) / 2 - area.y);
        dragged = true;
      } else {
        const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
        if (!dragged && Math.hypot(dx, dy) < 4) return;
        if (!dragged) canvas.setPointerCapture(event.pointerId);
        dragged = true;
        view.x += dx;
        view.y += dy;
        place();
      }
      pointers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas && !canvas.contains(document.activeElement)) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), event.clientX - box().x, event.clientY - box().y);
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      const step = 60;
      const moves = {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
      if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; place(); }
      else if (event.key === "+" || event.key === "=") zoom(1.25);
      else if (event.key === "-") zoom(0.8);
      else if (event.key === "0") fit();
      else return;
      event.preventDefault();
    });

    const button = (text, label, action) => make("button", {type: "button", "aria-label": label, title: label, onclick: action}, text);
    const all = (opened) => {
      open.clear();
      if (opened) for (const node of section.nodes) if ((node.members || []).length) open.add(node.id);
      draw();
      top();
    };
    draw();
    addEventListener("load", top);
    requestAnimationFrame(top);
    return make("div", {}, make("div", {class: "bar"}, search, count, button("+", "Zoom in", () => zoom(1.25)), button("\u2212", "Zoom out", () => zoom(0.8)),
      button("Whole", "Show the whole graph", fit), button("Top", "Show the top of the graph", top),
      button("Open all", "Show the operators of each group", () => all(true)), button("Close all", "Show groups only", () => all(false))),
      make("div", {class: "graph"}, canvas, aside));
  }

  const kinds = {facts, advice, table, chart, graph};
  document.querySelector("h1").textContent = report.title;
  document.querySelector("header p").textContent = report.subtitle || "";
  report.sections.forEach((section, i) => {
    const id = `section-${i}`;
    document.querySelector("nav").append(make("a", {href: `#${id}`}, section.title));
    const place = make("section", {id, "aria-labelledby": `${id}-title`}, make("h2", {id: `${id}-title`}, section.title),
      section.note ? make("p", {class: "note"}, ...prose(section.note)) : null);
    document.getElementById("content").append(place);
    try {
      place.append(kinds[section.kind](section));
    } catch (error) {
      place.append(make("p", {class: "note"}, `This section can't be drawn: ${error.message}`));
    }
  });
  document.documentElement.dataset.drawn = "yes";
})();
