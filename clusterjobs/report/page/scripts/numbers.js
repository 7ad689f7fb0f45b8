// Numbers as the axes and the values at the cursor show them.

function text(value) {
  const size = Math.abs(value);
  if (value === 0 || size >= 1e-4 && size < 1e15) {
    return Number(value.toPrecision(4)).toLocaleString("en", {maximumSignificantDigits: size < 1000 ? 4 : 15});
  }
  return value.toExponential(2).replace(/\.?0+e/, "e");
}

function stepText(step) {
  return Number.isInteger(step) ? step.toLocaleString("en") : "";
}

function placeText(place) {
  return view.hours ? `${text(place)} h` : `step ${stepText(place)}`;
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

// `2.145`, or of a thinned curve `2.145 (2.067 to 4.9)`.
function valueText(plot, u, index, point) {
  const {unit, curves} = plot.spec;
  const first = plot.extremes.indexOf(index - 1);
  const [low, high] = first < 0 ? [] : [0, 1].map(by => u.data[curves.length + 1 + first + by][point]);
  const range = low === high ? "" : ` (${text(low)} to ${text(high)})`;
  return `${text(u.data[index][point])} ${unit}`.trim() + range;
}
