// The place of each slot on the picture, and its owner.
//
// The band is a grid bent to a ring: 1,024 columns clockwise from the top, each of 64 slots from its inner to its outer
// edge. So each of the 65,536 slots has a place of its own, and a picture of 30,000 ranges is still exact.

export const SLOTS = 65_536;
export const COLUMNS = 1_024;
const ROWS = SLOTS / COLUMNS;

/** Parts of half the canvas: room for rays outside, for words inside. */
export const OUTER = 0.86;
export const INNER = 0.56;

/** The slot of each pixel of a square canvas, -1 where there is none. Some milliseconds: keep it. */
export function slotsOfPixels(size) {
  const slots = new Int32Array(size * size).fill(-1);
  const half = size / 2;
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      const distance = Math.hypot(x + 0.5 - half, y + 0.5 - half) / half;
      if (distance >= INNER && distance < OUTER) {
        slots[y * size + x] = slotAt(x + 0.5 - half, y + 0.5 - half, distance);
      }
    }
  }
  return slots;
}

function slotAt(x, y, distance) {
  const turn = (Math.atan2(x, -y) / (2 * Math.PI) + 1) % 1;
  const row = Math.floor(((distance - INNER) / (OUTER - INNER)) * ROWS);
  return Math.floor(turn * COLUMNS) * ROWS + Math.min(ROWS - 1, row);
}

/** The slot at a place on the canvas, in its own units from the centre; -1 beside the band. */
export function slotAtPoint(x, y, half) {
  const distance = Math.hypot(x, y) / half;
  return distance >= INNER && distance < OUTER ? slotAt(x, y, distance) : -1;
}

/** Clockwise from the top, in radians, the middle of the slot's column; canvas angles begin at the right. */
export const angleOf = (slot) => ((Math.floor(slot / ROWS) + 0.5) / COLUMNS) * 2 * Math.PI - Math.PI / 2;

export const columnOf = (slot) => Math.floor(slot / ROWS);

export const angleOfColumn = (column) => ((column + 0.5) / COLUMNS) * 2 * Math.PI - Math.PI / 2;

/** Of each slot the owner's place in `ring.workers`, -1 for none. */
export function ownersOf(ring) {
  const owners = new Int32Array(SLOTS + 1).fill(-1);
  for (const [start, end, place] of ring.ranges) owners.fill(place, start, end + 1);
  return owners;
}

/** Place of the range that a slot is in, or of the last one before it; -1 before all. Ranges ascend. */
export function rangeAt(ranges, slot) {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle][0] <= slot) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
