// One colour per worker, kept while it is connected, so that a join does not change other workers' colours.
//
// Hues leave out red to yellow, which say "drains". Neighbours in the list are a golden angle apart: the first few
// differ well, and 300 still differ. Lightness is fixed per theme, so that a share is not read off brightness.

const FIRST_HUE = 115;
const HUES = 225;
const GOLDEN = 0.618034;
/** [hue, lightness in the light, in the dark] of the first, chosen by eye. */
const FIRST = [
  [250, 0.58, 0.66], [150, 0.7, 0.72], [320, 0.62, 0.7], [200, 0.76, 0.82], [285, 0.46, 0.55], [120, 0.54, 0.58],
];
const LIGHTNESS = { light: [0.62, 0.72, 0.53], dark: [0.68, 0.58, 0.78] };
const CHROMA = 0.115;

export class Colours {
  #places = new Map();
  #free = [];

  /** Frees the places of workers that left, and assigns places to new ones. */
  keep(keys) {
    const here = new Set(keys);
    for (const [key, place] of this.#places) {
      if (!here.has(key)) {
        this.#places.delete(key);
        this.#free.push(place);
      }
    }
    this.#free.sort((a, b) => b - a);
    for (const key of keys) {
      if (!this.#places.has(key)) this.#places.set(key, this.#free.pop() ?? this.#places.size);
    }
  }

  /** [red, green, blue], 0 to 255. */
  of(key, theme) {
    const place = this.#places.get(key) ?? 0;
    if (place < FIRST.length) {
      const [hue, inLight, inDark] = FIRST[place];
      return oklch(theme === "dark" ? inDark : inLight, CHROMA, hue);
    }
    const hue = (FIRST_HUE + ((0.5 + place * GOLDEN) % 1) * HUES) % 360;
    return oklch(LIGHTNESS[theme][place % 3], CHROMA, hue);
  }

  css(key, theme) {
    return `rgb(${this.of(key, theme).join(" ")})`;
  }
}

export const themeNow = () =>
  document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

/** OKLCH to sRGB (Ottosson's matrices), clipped. */
function oklch(lightness, chroma, degrees) {
  const a = chroma * Math.cos((degrees * Math.PI) / 180);
  const b = chroma * Math.sin((degrees * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const value = linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, value)));
  });
}
