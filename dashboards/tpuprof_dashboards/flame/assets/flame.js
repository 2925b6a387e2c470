// The flame graph of name scopes. Nodes are elements of a tree, so that screen readers and the keyboard reach them;
// every text from a trace is set as text, never as markup.

const ROW = 26;
const THINNEST = 1.5; // px: what is narrower is not drawn, and neither is what lies in it
const NAMED = 18; // px: what is narrower has no name written on it
const flames = new WeakMap();

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".flame");
  let flame = flames.get(root);
  if (!flame) {
    flame = new Flame(root);
    flames.set(root, flame);
  }
  flame.tell = setTriggerValue;
  flame.show(data);
  return () => flame.stop();
}

class Flame {
  constructor(root) {
    this.root = root;
    for (const name of ["search", "found", "reset", "plot", "legend", "tip"]) this[name] = root.querySelector(`.${name}`);
    this.drawn = new Map(); // place of a node → its element
    this.observer = new ResizeObserver(() => this.draw());
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("change", () => this.tell("query", this.search.value));
    this.search.addEventListener("keydown", (event) => this.searchKey(event));
    this.reset.addEventListener("click", () => this.zoom(0));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("click", (event) => this.clicked(event));
    this.plot.addEventListener("mousemove", (event) => this.hover(event));
    this.plot.addEventListener("mouseleave", () => this.hideTip());
    this.plot.addEventListener("blur", () => this.hideTip());
  }

  show(data) {
    const same = this.text === JSON.stringify(data.nodes) + JSON.stringify(data.kinds);
    if (!same) {
      this.text = JSON.stringify(data.nodes) + JSON.stringify(data.kinds);
      this.nodes = data.nodes.map((node) => ({ ...node, children: [] }));
      this.nodes.forEach((node, at) => node.above !== null && this.nodes[node.above].children.push(at));
      this.kinds = data.kinds;
      this.current = 0;
      this.drawLegend();
    }
    const focus = this.nodes.findIndex((node) => node.path === data.focus);
    this.focus = focus < 0 ? 0 : focus;
    if (!same || !this.visible(this.current)) this.current = this.focus;
    if (this.query !== data.query) {
      this.query = data.query;
      this.search.value = data.query;
    }
    this.observer.observe(this.plot);
    this.draw();
    this.find();
  }

  stop() {
    this.observer.disconnect();
    this.hideTip();
  }

  ancestors(at) {
    const found = [];
    for (let above = this.nodes[at].above; above !== null; above = this.nodes[above].above) found.unshift(above);
    return found;
  }

  // Where nodes lie: those above the focus over the whole width, the focus and what is in it by its time.
  places() {
    const width = this.plot.clientWidth;
    const found = new Map();
    const above = this.ancestors(this.focus);
    above.forEach((at, row) => found.set(at, { x: 0, wide: width, row, above: true }));
    const scale = width / Math.max(this.nodes[this.focus].total, 1);
    const place = (at, x, row) => {
      const wide = this.nodes[at].total * scale;
      if (wide < THINNEST && at !== this.focus) return;
      found.set(at, { x, wide, row, above: false });
      let next = x;
      for (const child of this.nodes[at].children) {
        place(child, next, row + 1);
        next += this.nodes[child].total * scale;
      }
    };
    place(this.focus, 0, above.length);
    return found;
  }

  draw() {
    if (!this.nodes || !this.plot.clientWidth) return;
    const places = this.places();
    let rows = 0;
    for (const [at, element] of this.drawn) {
      if (!places.has(at) || element.of !== this.nodes) {
        element.remove();
        this.drawn.delete(at);
      }
    }
    const fresh = document.createDocumentFragment();
    for (const [at, place] of places) {
      const node = this.nodes[at];
      let element = this.drawn.get(at);
      if (!element) {
        element = this.element(at, node);
        this.drawn.set(at, element);
        fresh.append(element);
      }
      element.classList.toggle("above", place.above);
      element.classList.toggle("thin", place.wide < NAMED);
      element.textContent = place.wide < NAMED ? "" : `${node.name}  ${node.time}`;
      element.style.left = `${place.x}px`;
      element.style.width = `${Math.max(place.wide - 1, 1)}px`;
      element.style.top = `${place.row * ROW}px`;
      rows = Math.max(rows, place.row + 1);
    }
    this.plot.append(fresh);
    this.plot.style.height = `${rows * ROW}px`;
    this.reset.disabled = this.focus === 0;
    this.mark();
  }

  element(at, node) {
    const element = document.createElement("div");
    const color = node.kind < 0 ? "#8a929c" : this.kinds[node.kind].color;
    element.className = node.path === null ? "node rest" : "node";
    element.id = `flame-${at}`;
    element.of = this.nodes;
    element.dataset.at = at;
    element.style.backgroundColor = color;
    if (node.path !== null && node.parts.length > 1) element.style.backgroundImage = this.strip(node);
    element.style.color = isLight(color) ? "#14171b" : "#ffffff";
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(this.ancestors(at).length + 1));
    element.setAttribute("aria-label", `${node.name}, ${node.time}`);
    return element;
  }

  // The kinds of a scope as a strip along its lower edge, each as wide as its share.
  strip(node) {
    let from = 0;
    const stops = node.parts.map(([kind, share]) => {
      const stop = `${this.kinds[kind].color} ${100 * from}% ${100 * (from + share)}%`;
      from += share;
      return stop;
    });
    return `linear-gradient(to right, ${stops.join(", ")}, transparent ${100 * from}%)`;
  }

  drawLegend() {
    this.legend.replaceChildren(
      ...this.kinds.map((kind) => {
        const item = document.createElement("span");
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = kind.color;
        item.append(swatch, kind.name);
        return item;
      }),
    );
  }

  // Search: what has the text in its name; nothing counts twice where one hit lies in another.
  find() {
    const wanted = this.search.value.trim().toLowerCase();
    this.root.classList.toggle("searching", wanted !== "");
    let count = 0;
    let time = 0;
    this.hits = [];
    this.nodes.forEach((node, at) => {
      const hit = wanted !== "" && node.path !== null && node.name.toLowerCase().includes(wanted);
      if (hit) {
        this.hits.push(at);
        count += 1;
        if (!this.ancestors(at).some((above) => this.hits.includes(above))) time += node.total;
      }
      this.drawn.get(at)?.classList.toggle("hit", hit);
    });
    const share = (100 * time) / Math.max(this.nodes[0].total, 1);
    this.found.textContent = wanted === "" ? "" : count ? `${count} found, ${share.toFixed(1)} % of the time` : "nothing found";
  }

  searchKey(event) {
    event.stopPropagation();
    if (event.key === "Enter" && this.hits.length) {
      this.hits.sort((a, b) => this.nodes[b].total - this.nodes[a].total);
      this.zoom(this.hits[0]);
    } else if (event.key === "Escape") {
      this.search.value = "";
      this.find();
      this.tell("query", "");
      this.plot.focus();
    }
  }

  zoom(at) {
    if (this.nodes[at].path === null) return;
    this.focus = at;
    this.current = at;
    this.hideTip();
    this.draw();
    this.find();
    this.tell("scope", this.nodes[at].path);
  }

  clicked(event) {
    const at = this.at(event);
    if (at === null) return;
    this.zoom(at === this.focus && this.nodes[at].above !== null ? this.nodes[at].above : at);
    this.plot.focus();
  }

  key(event) {
    const node = this.nodes[this.current];
    const drawn = (all) => all.filter((at) => this.drawn.has(at));
    const siblings = node.above === null ? [this.current] : drawn(this.nodes[node.above].children);
    const beside = siblings.indexOf(this.current);
    const moves = {
      ArrowDown: () => drawn(node.children)[0],
      ArrowUp: () => node.above,
      ArrowLeft: () => siblings[beside - 1],
      ArrowRight: () => siblings[beside + 1],
      Home: () => 0,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      const next = moves[event.key]();
      if (next !== undefined && next !== null) this.current = next;
      this.mark();
      this.showTip(this.current);
    } else if (event.key === "Enter" || event.key === " ") this.zoom(this.current);
    else if (event.key === "Escape" || event.key === "Backspace") this.zoom(this.nodes[this.focus].above ?? 0);
    else if (event.key === "/") this.search.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  visible(at) {
    return this.nodes[at] !== undefined && this.drawn.has(at);
  }

  mark() {
    for (const [at, element] of this.drawn) element.classList.toggle("current", at === this.current);
    this.plot.setAttribute("aria-activedescendant", `flame-${this.current}`);
  }

  at(event) {
    const element = event.target.closest(".node");
    return element ? Number(element.dataset.at) : null;
  }

  hover(event) {
    const at = this.at(event);
    if (at === null) this.hideTip();
    else this.showTip(at, event);
  }

  showTip(at, event) {
    const node = this.nodes[at];
    const element = this.drawn.get(at);
    if (!element) return;
    if (this.tipped !== at) {
      this.tipped = at;
      this.tip.replaceChildren(...this.details(node));
    }
    this.tip.hidden = false;
    const frame = this.root.getBoundingClientRect();
    const box = element.getBoundingClientRect();
    const left = event ? event.clientX - frame.left + 14 : box.left - frame.left;
    this.tip.style.left = `${Math.max(Math.min(left, frame.width - this.tip.offsetWidth), 0)}px`;
    this.tip.style.top = `${box.bottom - frame.top + 6}px`;
  }

  details(node) {
    const title = document.createElement("div");
    title.className = "title";
    title.textContent = node.path || node.name;
    const table = document.createElement("table");
    for (const [name, value] of [["total", node.time], ...node.more]) {
      const row = table.insertRow();
      row.insertCell().textContent = name;
      row.insertCell().textContent = value;
    }
    return [title, table];
  }

  hideTip() {
    this.tip.hidden = true;
    this.tipped = null;
  }
}

function isLight(color) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19;
}
