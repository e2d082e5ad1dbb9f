// Live parts of a page: the server sends HTML for elements, by their ids.
"use strict";
// What is there already stays, and the keyboard's focus is on the same control afterwards.
const put = (element, html) => {
  const fresh = element.cloneNode(false);
  fresh.innerHTML = html;  // the server escapes every value
  if (fresh.isEqualNode(element)) return;
  const controls = "a[href], button, input, select, summary, [tabindex]";
  const same = (one) => [one.tagName, one.id, one.getAttribute("href"), one.getAttribute("name"), one.value].join("\n");
  const focused = element.contains(document.activeElement) ? same(document.activeElement) : null;
  element.replaceChildren(...fresh.childNodes);
  if (focused === null) return;
  const again = [...element.querySelectorAll(controls)].find((one) => same(one) === focused);
  if (again) again.focus({ preventScroll: true });
};
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
      if (element) put(element, html);
    }
    document.documentElement.dataset.live = String(1 + Number(document.documentElement.dataset.live || 0));
    if (sent.say) say(sent.say);
    if (sent.end) { source.close(); document.documentElement.dataset.ended = "1"; }
  };
  source.onerror = () => say("No connection to headrace serve. Trying again…");
  addEventListener("pagehide", () => source.close());
}
