// Live parts of a page: the server sends HTML for elements, by their ids.
"use strict";
for (const place of document.querySelectorAll("[data-events]")) {
  const source = new EventSource(place.dataset.events);
  const say = (text) => {
    const line = document.getElementById("live-state");
    if (line && line.textContent !== text) line.textContent = text;
  };
  source.onopen = () => say("");
  source.onmessage = (event) => {
    const sent = JSON.parse(event.data);
    for (const [id, html] of Object.entries(sent.parts || {})) {
      const element = document.getElementById(id);
      // The server escapes every value.
      if (element) element.innerHTML = html;
    }
    document.documentElement.dataset.live = String(1 + Number(document.documentElement.dataset.live || 0));
    if (sent.say) say(sent.say);
    if (sent.end) { source.close(); document.documentElement.dataset.ended = "1"; }
  };
  source.onerror = () => say("No connection to headrace serve. Trying again…");
  addEventListener("pagehide", () => source.close());
}
