// The steps that are shown, which are the same in all plots.

function extent(steps) {
  let low = Infinity, high = -Infinity;
  for (const step of steps) { low = Math.min(low, step); high = Math.max(high, step); }
  return low < high ? [low, high] : [low - 1, high + 1];
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
  const half = Math.max((max - min) * factor, view.hours ? 0 : 2) / 2;
  zoomAll(inside(middle - half, middle + half));
}

function inside(min, max) {
  const [low, high] = everything;
  const width = Math.min(max - min, high - low);
  const start = Math.min(Math.max(min, low), high - width);
  return [start, start + width];
}
