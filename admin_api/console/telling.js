// What tells those who listen that something of it has changed; what it is now, they read.

export class Telling extends EventTarget {
  tell(what) {
    this.dispatchEvent(new Event(what));
  }

  on(what, listener) {
    this.addEventListener(what, listener);
  }
}
