// Draws the curves of the page with uPlot: hover, zoom, keyboard, both colour schemes, and paper.
// It knows the page's data and elements; it must not know what a curve means.
"use strict";
(() => {
  const {plots: specs} = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const paper = {wide: 680, narrow: 330};
  const dashes = [undefined, [7, 4], [2, 4]];
  const everything = extent(specs.flatMap(spec => spec.curves.flatMap(curve => curve.x)));
  const plots = [];
  for (const spec of specs) plots.push(makePlot(spec));

  function extent(steps) {
    let low = Infinity, high = -Infinity;
    for (const step of steps) { low = Math.min(low, step); high = Math.max(high, step); }
    return low < high ? [low, high] : [low - 1, high + 1];
  }

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  }

  function text(value) {
    const size = Math.abs(value);
    if (value === 0 || size >= 1e-4 && size < 1e15) {
      return Number(value.toPrecision(4)).toLocaleString("en", {maximumSignificantDigits: size < 1000 ? 4 : 15});
    }
    return value.toExponential(2).replace(/\.?0+e/, "e");
  }

  // One plot: its uPlot object with what belongs to it. `at`: the index of the keyboard's point.
  // uPlot's series are the curves, then the extremes of those that were thinned: lowest, highest;
  // `extremes` has the curve of each.
  function makePlot(spec) {
    const figure = document.getElementById(spec.id);
    const plot = {
      spec, figure, at: null, focused: spec.curves.length > 4 ? 1 : null, log: spec.log,
      lit: false, box: figure.querySelector(".canvas"), readout: figure.querySelector(".readout"),
      all: figure.querySelector(".all"), shown: spec.curves.map(() => true),
      extremes: spec.curves.flatMap((curve, index) => curve.low.length ? [index, index] : []),
    };
    const thinned = spec.curves.filter(curve => curve.low.length);
    plot.data = uPlot.join([
      ...spec.curves.map(curve => [curve.x, curve.y]),
      ...thinned.map(curve => [curve.x, curve.low, curve.high]),
    ]);
    root.classList.add("scripted");
    listen(plot);
    draw(plot, everything);
    return plot;
  }

  function draw(plot, [min, max]) {
    plot.u?.destroy();
    plot.u = new uPlot(options(plot, min, max), plot.data, plot.box);
  }

  function options(plot, min, max) {
    const many = plot.spec.curves.length > 4;
    return {
      ...sizeOf(plot),
      legend: {show: false},
      padding: [12, 36, 0, 0],
      focus: {alpha: 0.25},
      cursor: {
        y: false,
        points: {size: 7},
        sync: {key: "steps", setSeries: false, filters: {pub: onlyMoves, sub: onlyMoves}},
        focus: {prox: many ? 1e6 : -1},
        hover: {skip: [undefined, null], prox: (u, index) => near(plot, u, index)},
        bind: {dblclick: () => () => { zoomAll(everything); return null; }},
      },
      scales: {
        x: {time: false, auto: false, min, max, range: (u, low, high) => [low, high]},
        y: plot.log ? {distr: 3} : {},
      },
      axes: [axis({size: 28, values: (u, steps) => steps.map(stepText)}), axis({size: 64, values: (u, values) => values.map(axisText)})],
      series: [
        {}, ...plot.spec.curves.map((curve, index) => series(plot, curve, index)),
        ...plot.extremes.map(index => extreme(plot, index)),
      ],
      bands: bands(plot),
      hooks: {
        drawAxes: [u => drawMarks(u, plot.spec.marks)],
        setCursor: [u => tell(plot, u)],
        setScale: [(u, key) => key === "x" && follow(plot, u)],
        setSeries: [(u, index, change) => change.focus && focus(plot, index)],
      },
    };
  }

  // How far from a point, in pixels, it is still shown: half the way to the next one, at least.
  function near(plot, u, index) {
    const {x} = plot.spec.curves[curveOf(plot, index)];
    const between = (x[x.length - 1] - x[0]) / Math.max(1, x.length - 1);
    return Math.max(40, between * u.over.clientWidth / (u.scales.x.max - u.scales.x.min));
  }

  function onlyMoves(type) {
    return type === "mousemove" || type === "mouseleave";
  }

  function stepText(step) {
    return Number.isInteger(step) ? step.toLocaleString("en") : "";
  }

  function axisText(value) {
    if (value == null) return "";
    const size = Math.abs(value);
    return size >= 1e5 || size > 0 && size < 1e-3 ? compact(value) : text(value);
  }

  function compact(value) {
    if (Math.abs(value) < 1) return value.toExponential(1).replace(".0e", "e");
    return value.toLocaleString("en", {notation: "compact", maximumSignificantDigits: 4});
  }

  function axis(more) {
    return {
      stroke: () => colour("soft"), font: "12px system-ui, sans-serif",
      grid: {stroke: () => colour("rule"), width: 1}, ticks: {show: false}, gap: 6, ...more,
    };
  }

  function series(plot, curve, index) {
    const ink = () => colour(`c${curve.colour % 8}`);
    const few = curve.x.length < 3;
    return {
      label: curve.name, show: plot.shown[index], stroke: ink, spanGaps: false,
      width: curve.style === "thin" ? 1 : 1.75,
      dash: curve.style === "thin" ? [3, 3] : dashes[Math.min(2, Math.floor(curve.colour / 8))],
      points: curve.style === "dots" || few ? {show: true, size: 6, fill: ink} : {show: false},
    };
  }

  // The range of values that a thinned curve's medians stand for: a light band with thin edges.
  function extreme(plot, index) {
    const edge = () => `${colour(`c${plot.spec.curves[index].colour % 8}`)}88`;
    return {label: "", class: "extreme", show: plot.shown[index], stroke: edge, width: 0.75, points: {show: false}};
  }

  function bands(plot) {
    const count = plot.spec.curves.length;
    return plot.extremes.flatMap((index, i) => i % 2 ? [{
      series: [count + 1 + i, count + i],
      fill: () => `${colour(`c${plot.spec.curves[index].colour % 8}`)}30`,
    }] : []);
  }

  function curveOf(plot, index) {
    const count = plot.spec.curves.length;
    return index > count ? plot.extremes[index - count - 1] : index - 1;
  }

  // `2.145`, or of a thinned curve `2.145 (2.067 to 4.9)`.
  function valueText(plot, u, index, point) {
    const {unit, curves} = plot.spec;
    const first = plot.extremes.indexOf(index - 1);
    const [low, high] = first < 0 ? [] : [0, 1].map(by => u.data[curves.length + 1 + first + by][point]);
    const range = low === high ? "" : ` (${text(low)} to ${text(high)})`;
    return `${text(u.data[index][point])} ${unit}`.trim() + range;
  }

  function drawMarks(u, marks) {
    const {ctx, bbox} = u, ratio = devicePixelRatio;
    let last = -Infinity;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("soft");
    ctx.lineWidth = ratio;
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    for (const [step, label] of marks) {
      const x = Math.round(u.valToPos(step, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.globalAlpha = 0.45;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      if (x - last > 22 * ratio) { ctx.fillText(label, x + 4 * ratio, bbox.top); last = x; }
    }
    ctx.restore();
  }

  // The values at the cursor: beside it, and as the value of the slider that the plot is for
  // screen readers. Of many curves, the nearest.
  function tell(plot, u) {
    const lines = [];
    const {idx, idxs, left} = u.cursor;
    if (idx != null && left >= 0) {
      plot.at = idx;
      for (let i = 1; i <= plot.spec.curves.length; i++) {
        const point = idxs[i];
        if (point == null || !u.series[i].show || plot.spec.curves.length > 4 && i !== plot.focused) continue;
        const many = plot.spec.curves.length > 1;
        const value = valueText(plot, u, i, point);
        if (!lines.length) lines.push(`step ${stepText(u.data[0][point])}`);
        lines.push(many ? `${u.series[i].label} ${value}` : value);
      }
    }
    plot.readout.replaceChildren(...lines.map(line => Object.assign(document.createElement("span"), {textContent: line})));
    if (lines.length) {
      place(plot, u);
      plot.box.setAttribute("aria-valuenow", u.data[0][idx]);
      plot.box.setAttribute("aria-valuetext", lines.join(", "));
    }
  }

  // The run in focus is the same in all plots.
  function focus(plot, index) {
    if (index == null) {
      for (const other of plots) if (other.lit) { other.lit = false; other.u.setSeries(null, {focus: true}); }
      return;
    }
    plot.focused = curveOf(plot, index) + 1;
    plot.lit = true;
    const run = plot.spec.curves[plot.focused - 1].colour;
    for (const other of plots) {
      if (other.focused === null) continue;
      const same = other.spec.curves.findIndex(curve => curve.colour === run) + 1;
      if (same && (other.focused !== same || !other.lit)) {
        other.u.setSeries(same, {focus: true});
        tell(other, other.u);
      }
    }
  }

  function place(plot, u) {
    const right = u.over.offsetLeft + u.cursor.left;
    const toLeft = u.cursor.left > u.over.clientWidth / 2;
    plot.readout.style.top = `${plot.box.offsetTop + 8}px`;
    plot.readout.style.left = toLeft ? `${right - plot.readout.offsetWidth - 10}px` : `${right + 10}px`;
  }

  // All plots show the same steps.
  function follow(plot, u) {
    const {min, max} = u.scales.x;
    if (min == null) return;
    plot.all.hidden = min <= everything[0] && max >= everything[1];
    for (const other of plots) {
      const {x} = other.u.scales;
      if (x.min !== min || x.max !== max) other.u.setScale("x", {min, max});
    }
  }

  function zoomAll([min, max]) {
    plots[0].u.setScale("x", {min, max});
  }

  function zoom(plot, factor) {
    const {min, max} = plot.u.scales.x;
    const middle = plot.at == null ? (min + max) / 2 : plot.u.data[0][plot.at];
    const half = Math.max((max - min) * factor, 2) / 2;
    zoomAll(inside(middle - half, middle + half));
  }

  function inside(min, max) {
    const [low, high] = everything;
    const width = Math.min(max - min, high - low);
    const start = Math.min(Math.max(min, low), high - width);
    return [start, start + width];
  }

  // The next index in a direction at which a curve that is shown has a value.
  function next(plot, from, by) {
    const {data, series} = plot.u;
    const wanted = plot.focused ? [plot.focused] : plot.spec.curves.map((_, i) => i + 1);
    const has = at => wanted.some(i => series[i].show && data[i][at] != null);
    let found = from;
    for (let at = from + Math.sign(by), left = Math.abs(by); left && at >= 0 && at < data[0].length; at += Math.sign(by)) {
      if (has(at)) { found = at; left--; }
    }
    return found;
  }

  function moveTo(plot, at) {
    const {u} = plot;
    const step = u.data[0][at];
    const {min, max} = u.scales.x;
    if (step < min || step > max) {
      const half = (max - min) / 2;
      zoomAll(inside(step - half, step + half));
      queueMicrotask(() => point(plot, at));
    } else point(plot, at);
  }

  function point(plot, at) {
    const {u} = plot;
    const curve = plot.focused ?? u.series.findIndex((one, i) => i && one.show && u.data[i][at] != null);
    const value = curve > 0 ? u.data[curve][at] : null;
    plot.at = at;
    u.setCursor({left: u.valToPos(u.data[0][at], "x"), top: value == null ? 0 : u.valToPos(value, "y")}, true, true);
  }

  function chooseRun(plot, by) {
    if (plot.focused === null) return;
    const count = plot.spec.curves.length;
    for (let i = 0; i < count; i++) {
      plot.focused = 1 + (plot.focused - 1 + by + count) % count;
      if (plot.u.series[plot.focused].show) break;
    }
    plot.u.setSeries(plot.focused, {focus: true});
    moveTo(plot, next(plot, Math.max(0, (plot.at ?? 0) - 1), 1));
  }

  function keys(plot) {
    const last = plot.data[0].length - 1, now = plot.at ?? -1;
    return {
      ArrowRight: () => moveTo(plot, next(plot, now, 1)),
      ArrowLeft: () => moveTo(plot, next(plot, plot.at ?? last + 1, -1)),
      PageDown: () => moveTo(plot, next(plot, now, 20)),
      PageUp: () => moveTo(plot, next(plot, plot.at ?? last + 1, -20)),
      Home: () => moveTo(plot, next(plot, -1, 1)),
      End: () => moveTo(plot, next(plot, last + 1, -1)),
      ArrowUp: () => chooseRun(plot, -1),
      ArrowDown: () => chooseRun(plot, 1),
      "+": () => zoom(plot, 0.5), "=": () => zoom(plot, 0.5), "-": () => zoom(plot, 2),
      "0": () => zoomAll(everything), Escape: () => zoomAll(everything),
    };
  }

  function listen(plot) {
    const {box, figure, spec} = plot;
    const [low, high] = everything;
    const attributes = {
      role: "slider", tabindex: 0, "aria-label": `${figure.querySelector("h3").textContent}, plot over steps`,
      "aria-describedby": `${spec.id}-sentence`, "aria-orientation": "horizontal",
      "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": low, "aria-valuetext": "no point chosen",
    };
    for (const [name, value] of Object.entries(attributes)) box.setAttribute(name, value);
    box.addEventListener("keydown", event => {
      const action = event.ctrlKey || event.altKey || event.metaKey ? null : keys(plot)[event.key];
      if (action) { event.preventDefault(); action(); }
    });
    box.addEventListener("blur", () => plot.u.setCursor({left: -10, top: -10}, true, true));
    plot.all.addEventListener("click", () => zoomAll(everything));
    figure.querySelector(".log")?.addEventListener("click", event => {
      plot.log = !plot.log;
      event.target.setAttribute("aria-pressed", plot.log);
      draw(plot, [plot.u.scales.x.min, plot.u.scales.x.max]);
    });
    new ResizeObserver(() => plot.u && resize(plot)).observe(box);
  }

  function sizeOf(plot) {
    const wide = plot.figure.classList.contains("wide");
    const width = root.classList.contains("paper") ? (wide ? paper.wide : paper.narrow) : plot.box.clientWidth;
    return {width: Math.max(200, width), height: plot.box.clientHeight || 220};
  }

  function resize(plot) {
    const size = sizeOf(plot);
    if (size.width !== plot.u.width || size.height !== plot.u.height) plot.u.setSize(size);
  }

  function redrawAll() {
    for (const plot of plots) { plot.u.setSize(sizeOf(plot)); plot.u.redraw(true, true); }
  }

  function print(on) {
    if (root.classList.toggle("paper", on) || !on) redrawAll();
  }

  function showRun(plot, run, show) {
    for (let i = 1; i < plot.u.series.length; i++) {
      const index = curveOf(plot, i);
      if (plot.spec.curves[index].colour !== run) continue;
      plot.shown[index] = show;
      plot.u.setSeries(i, {show});
    }
  }

  for (const button of document.querySelectorAll(".key")) {
    button.addEventListener("click", () => {
      const show = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", show);
      for (const plot of plots) showRun(plot, Number(button.dataset.run), show);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
})();
