// Who has logged in, and the way out; nothing where the gateway asks nobody.

import * as api from "./api.js";
import { byId, setText } from "./dom.js";

export async function showWho() {
  const { name, role, login } = await api.me();
  if (!login) return;
  const [who, out] = [byId("who"), byId("log-out")];
  setText(who, `${name}, ${role}`);
  out.addEventListener("click", () => api.logOut());
  who.hidden = out.hidden = false;
}
