// Notifies listeners that a part has changed; they read the current state themselves.

export class Telling extends EventTarget {
  tell(what) {
    this.dispatchEvent(new Event(what));
  }

  on(what, listener) {
    this.addEventListener(what, listener);
  }
}
