// The ring's picture. The band is painted pixel by pixel from a map of slots, so its cost is that of the canvas and not
// of the ranges; rays and the pointer are drawn over it.

import { COLUMNS, INNER, OUTER, SLOTS, angleOf, angleOfColumn, columnOf } from "./ring_geometry.js";

const OLD_S = 300;
/** Amber to red, by age. */
const YOUNG = { light: [214, 140, 0], dark: [255, 190, 70] };
const AGED = { light: [196, 20, 30], dark: [255, 84, 84] };
const GROUND = { light: [255, 255, 255], dark: [26, 29, 33] };
const UNOWNED = { light: [224, 225, 228], dark: [52, 57, 64] };
const DIMMED = 0.88;

const mixed = (one, other, part) => one.map((value, place) => Math.round(value + (other[place] - value) * part));

/** 0 just now, 1 from five minutes on; logarithmic, for most hand-overs take less than a second. */
const aged = (seconds) => Math.min(1, Math.log1p(seconds) / Math.log1p(OLD_S));

const packed = ([red, green, blue]) => (0xff << 24) | (blue << 16) | (green << 8) | red;

/**
 * Paints the whole picture.
 *
 * `picture`: owners by slot, colours of the owners, `picked` the place of the owner that stands out or -1, draining as
 * [slot, seconds], `pointer` a slot or -1, theme.
 */
export function paint(context, pixels, picture) {
  const { width: size } = context.canvas;
  const image = context.createImageData(size, size);
  paintBand(new Uint32Array(image.data.buffer), pixels, picture);
  context.putImageData(image, 0, 0);
  smoothEdges(context, size, picture.theme);
  drawRays(context, size, picture);
  if (picture.picked >= 0) drawTicks(context, size, picture);
  if (picture.pointer >= 0) drawPointer(context, size, picture);
}

function paintBand(target, pixels, { owners, colours, picked, draining, theme }) {
  const unowned = packed(UNOWNED[theme]);
  const shown = colours.map((colour, place) =>
    packed(picked >= 0 && place !== picked ? mixed(colour, UNOWNED[theme], DIMMED) : colour),
  );
  const bySlot = new Uint32Array(SLOTS + 1);
  for (let slot = 0; slot <= SLOTS; slot += 1) bySlot[slot] = owners[slot] < 0 ? unowned : shown[owners[slot]];
  for (const [slot, seconds] of draining) bySlot[slot] = packed(mixed(YOUNG[theme], AGED[theme], aged(seconds)));
  for (let pixel = 0; pixel < pixels.length; pixel += 1) {
    if (pixels[pixel] >= 0) target[pixel] = bySlot[pixels[pixel]];
  }
}

/** The pixels' edge is jagged; a line in the colour of the ground makes it round. */
function smoothEdges(context, size, theme) {
  const half = size / 2;
  context.strokeStyle = `rgb(${GROUND[theme].join(" ")})`;
  context.lineWidth = 2;
  for (const radius of [INNER * half, OUTER * half]) {
    context.beginPath();
    context.arc(half, half, radius, 0, 2 * Math.PI);
    context.stroke();
  }
}

/** A ray per column with draining slots: as long and as red as the oldest of them. */
function drawRays(context, size, { draining, theme }) {
  const oldest = new Float64Array(COLUMNS).fill(-1);
  for (const [slot, seconds] of draining) {
    const column = columnOf(slot);
    oldest[column] = Math.max(oldest[column], seconds);
  }
  const half = size / 2;
  const room = (1 - OUTER) * half;
  context.save();
  context.lineCap = "round";
  context.lineWidth = Math.max(1.5, size / 260);
  oldest.forEach((seconds, column) => {
    if (seconds < 0) return;
    const colour = `rgb(${mixed(YOUNG[theme], AGED[theme], aged(seconds)).join(" ")})`;
    context.strokeStyle = context.shadowColor = colour;
    context.shadowBlur = 3 + 9 * aged(seconds);
    const from = OUTER * half + 2;
    ray(context, half, angleOfColumn(column), from, from + room * (0.18 + 0.7 * aged(seconds)));
  });
  context.restore();
}

/** On the inner edge, a tick per column where the highlighted worker owns slots: among 300 workers a slot is one pixel. */
function drawTicks(context, size, { owners, colours, picked }) {
  const half = size / 2;
  context.save();
  context.strokeStyle = `rgb(${colours[picked].join(" ")})`;
  context.lineWidth = Math.max(1, size / 400);
  const columns = new Set();
  owners.forEach((place, slot) => place === picked && slot < SLOTS && columns.add(columnOf(slot)));
  for (const column of columns) ray(context, half, angleOfColumn(column), INNER * half - size / 60, INNER * half - 2);
  context.restore();
}

/** From the centre's side, where no ray is. */
function drawPointer(context, size, { pointer, theme }) {
  const half = size / 2;
  context.save();
  context.strokeStyle = theme === "dark" ? "#fff" : "#111";
  context.lineWidth = Math.max(2, size / 200);
  context.lineCap = "round";
  ray(context, half, angleOf(pointer), INNER * half - size / 34, OUTER * half);
  context.restore();
}

function ray(context, half, angle, from, to) {
  context.beginPath();
  context.moveTo(half + Math.cos(angle) * from, half + Math.sin(angle) * from);
  context.lineTo(half + Math.cos(angle) * to, half + Math.sin(angle) * to);
  context.stroke();
}
