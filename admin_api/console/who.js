// The logged-in user and the log-out button; empty if the gateway has no authentication.

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
