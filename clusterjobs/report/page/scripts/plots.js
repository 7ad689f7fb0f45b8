// Draws the curves of the page with uPlot, and follows its buttons, its size, colours and paper.
// All own scripts are one function; they know the page's data and elements, and no meaning of curves.

const {plots: specs} = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const paper = {wide: 680, narrow: 330};
const dashes = [undefined, [7, 4], [2, 4]];
const everything = extent(specs.flatMap(spec => spec.curves.flatMap(curve => curve.x)));
const plots = [];
for (const spec of specs) plots.push(makePlot(spec));

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

function drawOnPaper(on) {
  root.classList.toggle("paper", on);
  redrawAll();
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
addEventListener("beforeprint", () => drawOnPaper(true));
addEventListener("afterprint", () => drawOnPaper(false));
