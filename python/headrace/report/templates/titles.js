// Titles of figures in as many lines as they need: Bokeh makes a figure as wide as its title, and the page with it.
"use strict";
const headraceTitles = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  const width = (font, text) => {
    pen.font = `${font} helvetica, sans-serif`;
    return pen.measureText(text).width;
  };
  // Left of the title are the labels of the axis, on rows their names, and its title.
  const rowsOf = (range) => range.factors ?? range.attributes?.factors ?? ["0.00000"];

  function lines(element, text, range) {
    const labels = rowsOf(range).flatMap((label) => label.split("\n"));
    const room = element.clientWidth - 60 - Math.max(...labels.map((label) => width("12px", label)));
    const found = [];
    for (const word of text.split(" ")) {
      const longer = found.length ? `${found.at(-1)} ${word}` : word;
      if (found.length && width("bold 14px", longer) > room) found.push(word);
      else found.splice(-1, 1, longer);
    }
    return found.join("\n");
  }

  const drawn = new Map();
  addEventListener("resize", () => {
    for (const [plot, [element, text]] of drawn) plot.title.text = lines(element, text, plot.y_range);
  });
  function set(plot, element, text) {
    drawn.set(plot, [element, text]);
    plot.title.text = lines(element, text, plot.y_range);
  }
  // Draws a figure; returns its plot. Its title has its lines before: a drawing that grows later leaves ink behind.
  async function embed(item, element) {
    const figure = item.doc.roots[0].attributes;
    const title = figure.title.attributes;
    const { text } = title;
    title.text = lines(element, text, figure.y_range);
    const view = await Bokeh.embed.embed_item(item, item.target_id);
    // What came back is the view of the plot, or (by version) a manager of views that holds it.
    const plot = view.model ?? view.roots[0].model;
    drawn.set(plot, [element, text]);
    return plot;
  }
  return { embed, set };
})();
