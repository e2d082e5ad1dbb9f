// Draws the ratios of a comparison from the page's data.
"use strict";
(async () => {
  const page = JSON.parse(document.getElementById("headrace-data").textContent);
  for (const item of page.figures) await Bokeh.embed.embed_item(item, item.target_id);
  document.documentElement.dataset.drawn = page.figures.length;
})();
