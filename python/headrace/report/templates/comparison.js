// Draws the ratios of a comparison from the page's data.
"use strict";
(async () => {
  const page = JSON.parse(document.getElementById("headrace-data").textContent);
  for (const item of page.figures) await headraceTitles.embed(item, document.getElementById(item.target_id));
  document.documentElement.dataset.drawn = page.figures.length;
})();
