// What a plot looks like: the options of uPlot, with colours from the page's styles.

function colour(name) {
  return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
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
    axes: [axis({size: 28, values: (u, steps) => steps.map(view.hours ? axisText : stepText)}), axis({size: 64, values: (u, values) => values.map(axisText)})],
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
  const x = placesOf(plot.spec.curves[curveOf(plot, index)]);
  const between = (x[x.length - 1] - x[0]) / Math.max(1, x.length - 1);
  return Math.max(40, between * u.over.clientWidth / (u.scales.x.max - u.scales.x.min));
}

function onlyMoves(type) {
  return type === "mousemove" || type === "mouseleave";
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

// Of many bands above each other, each is the lighter, so that the curves can be seen through them.
function light(plot, index, opacity) {
  const share = Math.min(1, 6 / plot.extremes.length);
  const hex = Math.max(2, Math.round(opacity * share)).toString(16).padStart(2, "0");
  return `${colour(`c${plot.spec.curves[index].colour % 8}`)}${hex}`;
}

// The range of values that a thinned curve's medians stand for: a light band with thin edges.
function extreme(plot, index) {
  const edge = () => light(plot, index, 0x88);
  return {label: "", class: "extreme", show: plot.shown[index], stroke: edge, width: 0.75, points: {show: false}};
}

function bands(plot) {
  const count = plot.spec.curves.length;
  return plot.extremes.flatMap((index, i) => i % 2 ? [{
    series: [count + 1 + i, count + i],
    fill: () => light(plot, index, 0x30),
  }] : []);
}

function curveOf(plot, index) {
  const count = plot.spec.curves.length;
  return index > count ? plot.extremes[index - count - 1] : index - 1;
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
