// A line of numbers without axes, beside the number itself: for the eye alone.

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [96, 20];
const LINES = new WeakMap();

export class Sparkline {
  element = document.createElementNS(SVG, "svg");
  #line = document.createElementNS(SVG, "polyline");
  #area = document.createElementNS(SVG, "polygon");

  constructor() {
    for (const [name, value] of [["viewBox", `0 0 ${WIDE} ${HIGH}`], ["class", "spark"], ["aria-hidden", "true"], ["preserveAspectRatio", "none"]]) this.element.setAttribute(name, value);
    this.element.append(this.#area, this.#line);
    LINES.set(this.element, this);
  }

  /** The one in a cell. */
  static of(cell) {
    return LINES.get(cell.firstElementChild);
  }

  /** From zero to the largest; the last is at the end. */
  show(numbers) {
    const most = Math.max(1, ...numbers);
    const step = WIDE / Math.max(1, numbers.length - 1);
    const points = numbers.map((number, place) => `${(place * step).toFixed(1)},${(HIGH - 1 - (number / most) * (HIGH - 2)).toFixed(1)}`);
    this.#line.setAttribute("points", points.join(" "));
    this.#area.setAttribute("points", numbers.length > 1 ? `0,${HIGH} ${points.join(" ")} ${WIDE},${HIGH}` : "");
  }
}
