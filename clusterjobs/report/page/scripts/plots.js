// Draws the curves of the page with uPlot, and follows its buttons, its size, colours and paper.
// All own scripts are one function; they know the page's data and elements, and no meaning of curves.

const {plots: specs, places, settings} = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const paper = {wide: 680, narrow: 330};
const dashes = [undefined, [7, 4], [2, 4]];
const curves = specs.flatMap(spec => spec.curves);
for (const curve of curves) { curve.x = places[curve.x]; curve.hours = places[curve.hours]; }
const has = {hours: curves.length > 0 && curves.every(curve => curve.hours.length)};
const view = {hours: false, smooth: 0};
let everything = extentOfAll();
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
  plot.data = dataOf(spec);
  root.classList.add("scripted");
  listen(plot);
  draw(plot, everything);
  return plot;
}

function extentOfAll() {
  return extent(curves.flatMap(placesOf));
}

function placesOf(curve) {
  return view.hours ? curve.hours : curve.x;
}

function dataOf(spec) {
  const thinned = spec.curves.filter(curve => curve.low.length);
  return uPlot.join([
    ...spec.curves.map(curve => [placesOf(curve), curve.style === "dots" ? curve.y : smoothed(curve.y)]),
    ...thinned.map(curve => [placesOf(curve), curve.low, curve.high]),
  ]);
}

// The exponential mean of the values so far, without the pull of the first one.
function smoothed(values) {
  const keep = view.smooth;
  let sum = 0, weight = 0;
  return keep ? values.map(value => {
    if (value == null) return value;
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  }) : values;
}

function viewAgain(change) {
  const before = view.hours;
  Object.assign(view, change);
  everything = extentOfAll();
  for (const plot of plots) {
    plot.data = dataOf(plot.spec);
    plot.at = null;
    const {min, max} = plot.u.scales.x;
    draw(plot, before === view.hours ? [min, max] : everything);
  }
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

function showCurve(run, show) {
  for (const other of document.querySelectorAll(`.key[data-run="${run}"]`)) other.setAttribute("aria-pressed", show);
  for (const plot of plots) showRun(plot, run, show);
}

for (const button of document.querySelectorAll(".key")) {
  button.addEventListener("click", () => showCurve(Number(button.dataset.run), button.getAttribute("aria-pressed") !== "true"));
}
document.querySelector(".smooth")?.addEventListener("input", event => viewAgain({smooth: Number(event.target.value)}));
const hours = document.querySelector(".hours");
if (hours) {
  hours.hidden = !has.hours;
  hours.addEventListener("click", () => {
    hours.setAttribute("aria-pressed", !view.hours);
    viewAgain({hours: !view.hours});
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("beforeprint", () => drawOnPaper(true));
addEventListener("afterprint", () => drawOnPaper(false));
