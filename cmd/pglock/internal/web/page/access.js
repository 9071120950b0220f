"use strict";
// secret shows the monitor that a request comes from its own page: the cookie goes to all ports of the host, but a
// sessionStorage belongs to one. The login brings it, and a new tab asks the other tabs of the page for it.
const tabs = new BroadcastChannel("secret");
let secret = sessionStorage.getItem("secret") || "";
function keep(given) {
  secret = given;
  sessionStorage.setItem("secret", secret);
}
const brought = new URLSearchParams(location.hash.slice(1)).get("secret");
if (brought) {
  keep(brought);
  history.replaceState(null, "", location.pathname + location.search);
}
tabs.addEventListener("message", e => {
  if (e.data === "" && secret) tabs.postMessage(secret);
  else if (e.data && !secret) {
    keep(e.data);
    begin();
  }
});
async function ask(url) {
  const r = await fetch(url, { cache: "no-store", headers: { "Pglock-Secret": secret } });
  if (r.status === 401) { // the monitor was started again, or the tab is new
    secret = "";
    tabs.postMessage("");
  }
  return r;
}
