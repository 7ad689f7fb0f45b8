// The point that is read: by the mouse, or by the keyboard; the same step and run in all plots.

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
      if (!lines.length) lines.push(placeText(u.data[0][point]));
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
